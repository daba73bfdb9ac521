"""The command line: ``python -m cost [STUDY …]``; studies that are named are only printed."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import torch
from benchmarks.provenance import processor

from cost import page, planned, steps
from cost.steps import Kind
from mnemoscope.core.capacity import OVERSIZE
from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import STUDIES, find
from mnemoscope.studies.estimate import kind_of
from mnemoscope.studies.sizes import count
from mnemoscope.training.config import RunConfig

PAGE = Path(__file__).parents[1] / "docs" / "cost.md"
# Whole steps that estimates are held against: a study, a memory that it trains, and numbers of
# layers to estimate from, if not from all.
CHECKED: tuple[tuple[str, str, tuple[int, ...]], ...] = (
    ("lag", "lstm", ()),
    ("translation", "bahdanau", ()),
    ("waves", "encoder", (1, 2)),
)


def kinds_of(study: str, home: Path) -> list[Kind]:
    """All that a study trains, with what a step of each kind takes."""
    if study in ("caches", "documents", "infinite"):
        from cost import attached  # needs transformers

        return attached.STUDIES[study](home / study)
    alike: dict[str, list[RunConfig]] = defaultdict(list)
    for one in planned.planned(study, home):
        alike[repr(kind_of(one))].append(one)
    return [
        Kind(
            study,
            name_of(same[0]),
            tuple(one.training.steps for one in same),
            count(same[0].model),
            steps.step_of(kind_of(same[0])),
        )
        for same in alike.values()
    ]


def name_of(config: RunConfig) -> str:
    """What makes a model large."""
    model = config.model
    which = f"{config.memory} {getattr(model, 'pattern', '')}".strip()
    return f"{which}, width {model.width}, {model.layers} layer{'s' if model.layers > 1 else ''}"


def compared(home: Path) -> list[tuple[str, float, float]]:
    """Estimates from few rows beside whole steps."""
    found = []
    for study, memory, depths in CHECKED:
        one = next(one for one in planned.planned(study, home) if one.memory == memory)
        kind = kind_of(one)
        whole = steps.timed(steps.typical(kind), kind.training.batch)
        estimate = steps.step_of(kind, depths).seconds
        found.append((f"{study}, {name_of(one)}", estimate, whole))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page, or print the rows of some studies."""
    known = [name for name in STUDIES if "paper" in find("study", name).presets]
    parser = argparse.ArgumentParser(prog="python -m cost")
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=f"of {', '.join(known)}")
    names = parser.parse_args(arguments).studies
    for name in names:
        if name not in known:
            parser.error(f"{name} has no preset paper; known: {', '.join(known)}")
    # What is planned may be larger than this machine: no whole step of it is made.
    os.environ[OVERSIZE] = "1"
    torch.set_num_threads(1)
    found: dict[str, Sequence[Kind] | str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names or known:
            began = time.process_time()
            try:
                found[name] = kinds_of(name, Path(folder))
            except UserError as error:
                found[name] = str(error).splitlines()[0]
            took = f"{name}: {time.process_time() - began:.0f} CPU s"
            print(took, file=sys.stderr, flush=True)
        kinds = [kind for one in found.values() if not isinstance(one, str) for kind in one]
        tables = page.by_study(found) + page.MODELS + page.by_model(kinds)
        if names:
            print(tables)
            return
        checked = page.checked(compared(Path(folder)))
    PAGE.write_text(page.head(processor(), checked) + tables + page.simulated())


if __name__ == "__main__":
    main()
