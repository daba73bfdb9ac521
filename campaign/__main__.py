"""The command line: ``python -m campaign [--kills 200] [--seed 0] [--engines local,shared,…]``."""

from __future__ import annotations

import argparse
import importlib.util
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from campaign import studies, trainings
from campaign.table import Row, markdown

NEEDS = {"ray": "ray", "slurm": "submitit"}


def rows(home: Path, kills: int, engines: Sequence[str], draw: random.Random) -> Iterator[Row]:
    """All faults: of the kills, one in eight is of a study or a worker, which take far longer."""
    whole = trainings.references(home)
    in_studies = max(2 * len(engines), kills // 8)
    yield from trainings.kills(home, whole, kills - in_studies, draw)
    yield from trainings.files(home, whole, max(8, kills // 4), draw)
    yield from trainings.disks(home, whole)
    yield from trainings.two_writers(home, whole)
    reference = studies.reference(home)
    shares = {one: in_studies // (2 * len(engines)) for one in engines}
    for engine, count in shares.items():
        yield studies.worker_kills(home, engine, count, draw, reference)
        yield studies.study_kills(home, engine, count, draw, reference)
    if "ray" in engines:
        yield studies.head_kills(home, max(1, kills // 100), reference)
    if "shared" in engines:
        yield from studies.asleep(home, max(1, kills // 100), draw, reference)


def main(arguments: Sequence[str] | None = None) -> int:
    """Try all faults and print what became of them; the exit code says whether any was lost."""
    parser = argparse.ArgumentParser(prog="python -m campaign")
    parser.add_argument("--kills", type=int, default=200, help="random SIGKILLs in all")
    parser.add_argument("--seed", type=int, default=0, help="of which fault comes when")
    parser.add_argument("--engines", default=",".join(studies.ENGINES), help="parted by commas")
    parser.add_argument("--out", type=Path, help="keep what is trained here")
    chosen = parser.parse_args(arguments)
    engines = [name for name in chosen.engines.split(",") if name]
    for name in engines:
        if name not in studies.ENGINES:
            parser.error(f"unknown engine {name!r}; known: {', '.join(studies.ENGINES)}")
        if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
            parser.error(f"{name} is not installed: pip install 'mnemoscope[{name}]'")
    found: list[Row] = []
    with tempfile.TemporaryDirectory() as passing:
        home = chosen.out or Path(passing)
        home.mkdir(parents=True, exist_ok=True)
        for row in rows(home, chosen.kills, engines, random.Random(chosen.seed)):
            found.append(row)
            done = f"{row.fault}: {row.tried} tried, {row.lost} lost"
            print(done, file=sys.stderr, flush=True)
    print(markdown(found))
    return 1 if any(row.lost for row in found) else 0


if __name__ == "__main__":
    sys.exit(main())
