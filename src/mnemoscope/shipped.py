"""Results that come with the package: those behind the figures of the guide.

A page is drawn from ``results/NAME/result.json`` alone, in seconds and without torch.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from mnemoscope import report
from mnemoscope.core.data import to_plain
from mnemoscope.core.errors import UserError
from mnemoscope.core.files import write_whole
from mnemoscope.core.registry import registered
from mnemoscope.core.trust import Modules
from mnemoscope.publish import Published, drawn
from mnemoscope.publish import study as run_study
from mnemoscope.report.document import Report
from mnemoscope.studies.folder import RESULT, VERSION, Finished
from mnemoscope.studies.results import home, load, owner, read, shipped

__all__ = ["home", "load", "owner", "page", "read", "ship", "shipped", "show", "study"]

# Larger results are packed: they are read by programs, and a checkout holds them for ever.
PACKED_ABOVE = 100_000


def page(finished: Finished, note: str = "") -> Report:
    """The page of a result; ``note`` stands before its question."""
    document = drawn(owner(finished.kind, finished.name), finished)
    return replace(document, question=f"{note} {document.question}") if note else document


def show(name: str | Path, out: str | Path | None = None) -> Published:
    """Draw the page of a shipped result, or of the folder of a study or lens.

    ``show("retention").open()`` shows it in the browser; nothing is trained.
    """
    folder = Path(name)
    own = (folder / RESULT).is_file()
    finished = read(folder / RESULT) if own else load(str(name))
    note = "" if own else f"Shipped with mnemoscope, made on {finished.made.date:%Y-%m-%d}:"
    where = Path(out) if out else (folder if own else Path("runs") / f"shipped-{name}")
    document = page(finished, note)
    report.write_data(document, where)
    return Published(report.write(document, where), finished.result)


def study(
    name: str,
    preset: str | None = None,
    out: str | Path | None = None,
    jobs: int | None = None,
    images: bool = False,
    *,
    engine: str = "local",
    trust: Modules = None,
    **options: Any,
) -> Published:
    """Run a study, or continue one that was stopped, and write its page.

    The name alone trains nothing: it opens your newest finished result of that study below
    ``runs``, or else the one that comes with the package, and says which.
    ``study(name, "quick")`` runs it.

    Leaves ``report.html``, ``result.json`` and ``figures/*.csv`` in ``out``; ``images`` adds the
    figures as SVG and PNG. ``jobs`` trainings run at the same time, by default one a core; where,
    says ``engine``: local, shared, ray or slurm. Its options are given by name among those of the
    study. ``trust`` names modules that memories named ``module:Name`` may be imported from.
    """
    asked = (preset, out, jobs, images, engine, trust, options)
    if asked == (None, None, None, False, "local", None, {}):
        known = _known(registered("study", name))
        if known is not None:
            return known
    wanted = "quick" if preset is None else preset
    return run_study(name, wanted, out, jobs, images, engine, trust, options)


def _known(name: str) -> Published | None:
    """The page of a result that is there, the user's own before the shipped one."""
    own: dict[datetime, Path] = {}
    for path in Path("runs").glob(f"*/{RESULT}"):
        try:
            found = read(path)
        except UserError:  # damaged, or of something that is not ours: no result to show
            continue
        if (found.kind, found.name) == ("study", name):
            own[found.made.date] = path.parent
    if own:
        where: str | Path = own[max(own)]
        said = f"your result in {where}, made on {max(own):%Y-%m-%d}"
    elif name in shipped():
        where, said = name, "the result that comes with mnemoscope"
    else:
        return None
    Console(stderr=True, soft_wrap=True).print(
        f'{name}: {said}; ms.study("{name}", "quick") runs it.', highlight=False
    )
    return show(where)


def ship(folder: Path, name: str, cpu_seconds: float | None = None) -> Path:
    """Put the result of a study or lens among those that are shipped.

    No path of a machine stays in it, nor data that it keeps only to show them. ``python -m
    mnemoscope.shipped FOLDER NAME`` does it; results of lenses are called lens-NAME, that of all
    families check.
    ``cpu_seconds`` replaces what the result says of its cost, where that was measured outside.
    """
    finished = read(folder / RESULT)
    made = replace(
        finished.made,
        command=re.sub(r" --out \S+", "", finished.made.command),
        cpu_seconds=finished.made.cpu_seconds if cpu_seconds is None else cpu_seconds,
    )
    result = finished.result
    if hasattr(result, "without_data"):
        result = result.without_data()
    finished = replace(finished, result=result, made=made, notices=())
    content = json.dumps({"version": VERSION, **_shortened(to_plain(finished))}).encode()
    target = home() / name
    for old in target.glob(f"{RESULT}*"):
        old.unlink()
    if len(content) > PACKED_ABOVE:
        # No name and no time inside: the same result gives the same file.
        return write_whole(target / f"{RESULT}.gz", gzip.compress(content, mtime=0))
    return write_whole(target / RESULT, content)


def _shortened(value: Any) -> Any:
    """Numbers of five digits, more than any figure shows; paths without the folders before them."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, str):
        return re.sub(r"(?<![\w.])/(?:[\w.+-]+/)+", "", value)
    if isinstance(value, dict):
        return {key: _shortened(one) for key, one in value.items()}
    return [_shortened(one) for one in value] if isinstance(value, list) else value


if __name__ == "__main__":
    ship(Path(sys.argv[1]), sys.argv[2], *map(float, sys.argv[3:]))
