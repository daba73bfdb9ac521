"""Results that come with the package: those behind the figures of the guide.

A page is drawn from ``results/NAME/result.json`` alone, in seconds and without torch.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from mnemoscope import report
from mnemoscope.core.bounded import opened, read_json
from mnemoscope.core.data import to_plain
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.core.files import write_whole
from mnemoscope.core.registry import find
from mnemoscope.publish import drawn
from mnemoscope.report.document import Report
from mnemoscope.studies.folder import RESULT, VERSION, Finished, revive

# Larger results are packed: they are read by programs, and a checkout holds them for ever.
PACKED_ABOVE = 100_000
MOST_BYTES = 64 << 20


def home() -> Path:
    """The folder of shipped results: in a checkout beside the sources, else in the package."""
    inside = Path(__file__).parent / "results"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "results"


def shipped() -> list[str]:
    """Names of all results that come with the package."""
    return sorted(path.parent.name for path in home().glob(f"*/{RESULT}*"))


def load(name: str) -> Finished:
    """The shipped result of this name."""
    known = shipped()
    if name not in known:
        raise UserError(
            f"no result called {name!r} comes with the package; {suggestion(name, known)}"
        )
    return read(next(home().glob(f"{name}/{RESULT}*")))


def read(path: Path) -> Finished:
    """A result file, packed or not; the folder of any study or lens has one."""
    try:
        if path.suffix == ".gz":
            with opened(path) as file, gzip.open(file) as packed:
                found = json.loads(packed.read(MOST_BYTES))
        else:
            found = read_json(path, "run the study or the lens again")
        kind = found.get("kind", "study") if isinstance(found, dict) else "study"
        return revive(found, find(kind, found["name"]).Result)
    except (OSError, EOFError, ValueError, RecursionError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged: {error}") from error
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def page(finished: Finished, note: str = "") -> Report:
    """The page of a result; ``note`` stands before its question."""
    document = drawn(find(finished.kind, finished.name), finished)
    return replace(document, question=f"{note} {document.question}") if note else document


def show(name: str, out: str | Path | None = None) -> Path:
    """Draw the page of a shipped result, or of the folder of a study or lens; returns the page."""
    folder = Path(name)
    own = (folder / RESULT).is_file()
    finished = read(folder / RESULT) if own else load(name)
    note = "" if own else f"Shipped with mnemoscope, made on {finished.made.date:%Y-%m-%d}:"
    where = Path(out) if out else (folder if own else Path("runs") / f"shipped-{name}")
    document = page(finished, note)
    report.write_data(document, where)
    return report.write(document, where)


def ship(folder: Path, name: str, cpu_seconds: float | None = None) -> Path:
    """Put a finished study's result among those that are shipped; no path of a machine stays.

    ``cpu_seconds`` replaces what the result says of its cost, where that was measured outside.
    """
    finished = read(folder / RESULT)
    made = finished.made
    command = re.sub(r" --out \S+", "", _without_folders(made.command))
    made = replace(
        made,
        command=command,
        config=_without_folders(made.config),
        cpu_seconds=made.cpu_seconds if cpu_seconds is None else cpu_seconds,
    )
    finished = replace(finished, made=made, notices=())
    content = json.dumps({"version": VERSION, **_rounded(to_plain(finished))}).encode()
    target = home() / name
    for old in target.glob(f"{RESULT}*"):
        old.unlink()
    if len(content) > PACKED_ABOVE:
        # No name and no time inside: the same result gives the same file.
        return write_whole(target / f"{RESULT}.gz", gzip.compress(content, mtime=0))
    return write_whole(target / RESULT, content)


def _without_folders(text: str) -> str:
    return re.sub(r"(?<![\w.])/(?:[\w.+-]+/)+", "", text)


def _rounded(value: Any) -> Any:
    """Five digits: more than any figure or sentence shows, and a third of the size."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value


if __name__ == "__main__":
    ship(Path(sys.argv[1]), sys.argv[2], *map(float, sys.argv[3:]))
