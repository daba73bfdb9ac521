"""Every causal family of the installed `transformers`, each in a process of its own.

A family that crashes, or takes too long, is a row that says so.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mnemoscope.checks import families
from mnemoscope.checks.carrying import STATE
from mnemoscope.checks.difference import compared
from mnemoscope.checks.measure import examine, versions
from mnemoscope.checks.promises import PROMISES
from mnemoscope.checks.result import BAD, Cell, CheckResult, Row
from mnemoscope.checks.subject import TransformersSubject
from mnemoscope.core.data import from_plain, to_plain
from mnemoscope.core.errors import UserError, first_line, suggestion
from mnemoscope.huggingface.quiet import quiet, require_transformers

# Seconds that one family may take.
PATIENCE = 180.0
ROW = "row.json"


# Files that most families share, imported once for all of them.
SHARED = (
    "mnemoscope.checks.measure",
    "transformers.generation.utils",
    "transformers.models.bart.modeling_bart",
    "transformers.models.bert.modeling_bert",
    "transformers.models.jamba.modeling_jamba",
    "transformers.models.llama.modeling_llama",
    "transformers.models.mixtral.modeling_mixtral",
)


@dataclass
class _Job:
    """A process of a family: the one that asks, or then the one that continues from a state."""

    name: str
    process: Any
    home: Path
    began: float
    again: bool = False


def survey(
    names: Sequence[str] | None = None,
    jobs: int = 1,
    done: Callable[[Row], None] | None = None,
    patience: float = PATIENCE,
) -> CheckResult:
    """Check families, ``jobs`` at a time; ``done`` is told of each row as it comes."""
    require_transformers()
    known = families.names()
    for name in names or ():
        if name not in known:
            raise UserError(f"transformers has no family {name!r}; {suggestion(name, known)}")
    waiting = list(names or known)[::-1]
    running: list[_Job] = []
    rows: dict[str, Row] = {}
    processes = _processes()
    with tempfile.TemporaryDirectory() as folder:
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    running.append(_begun(processes, waiting.pop(), Path(folder)))
                time.sleep(0.02)
                for job in [one for one in running if _ended(one, patience)]:
                    running.remove(job)
                    row = _row(job, patience)
                    if not job.again and (job.home / STATE).is_file():
                        running.append(_begun(processes, job.name, Path(folder), again=True))
                        continue
                    rows[job.name] = row
                    if done is not None:
                        done(row)
        finally:
            for job in running:
                job.process.terminate()
                job.process.join()
    ordered = tuple(rows[name] for name in names or known)
    return CheckResult(ordered, tuple(PROMISES), versions())


def _processes() -> Any:
    """How processes begin: forked from a server that has imported the libraries and nothing more.

    It has never built a model, so each of them is a fresh one. Where a system has no such server,
    they begin anew.
    """
    known = multiprocessing.get_all_start_methods()
    chosen: Any = multiprocessing.get_context("forkserver" if "forkserver" in known else "spawn")
    if "forkserver" in known:
        chosen.set_forkserver_preload(list(SHARED))
    # Before torch is imported there: as many processes run as there are cores.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")
    return chosen


def _begun(processes: Any, name: str, folder: Path, again: bool = False) -> _Job:
    home = folder / name
    home.mkdir(exist_ok=True)
    process = processes.Process(target=_continued if again else _examined, args=(name, str(home)))
    process.start()
    return _Job(name, process, home, time.monotonic(), again)


def _ended(job: _Job, patience: float) -> bool:
    late = time.monotonic() - job.began > patience
    if late:
        job.process.terminate()
        job.process.join()
    return late or not job.process.is_alive()


def _row(job: _Job, patience: float) -> Row:
    """What a family left behind, or how its process ended."""
    job.process.join()
    file = job.home / ROW
    if not file.is_file():
        late = time.monotonic() - job.began > patience
        end = f"took longer than {patience:.0f} seconds" if late else "ended its process"
        return Row(job.name, missing=f"{end} (exit code {job.process.exitcode})")
    row = from_plain(Row, json.loads(file.read_text(encoding="utf-8")))
    if job.again and job.process.exitcode:
        note = f"a fresh process could not continue (exit code {job.process.exitcode})"
        row = _with(row, Cell("saved", "broken", note=note))
    return row


def _with(row: Row, cell: Cell) -> Row:
    cells = tuple(cell if one.promise == cell.promise else one for one in row.cells)
    return replace(row, cells=cells)


def _write(row: Row, home: Path) -> None:
    part = home / f"{ROW}.part"
    part.write_text(json.dumps(to_plain(row)), encoding="utf-8")
    part.rename(home / ROW)


def _examined(name: str, folder: str) -> None:
    """The work of the first process: build, ask, and leave the row and a state behind."""
    import torch

    torch.set_num_threads(1)
    with quiet():
        _write(examine_family(name, Path(folder)), Path(folder))


def _continued(name: str, folder: str) -> None:
    """The work of the second: continue from the state that the first one left."""
    import torch

    from mnemoscope.checks.carrying import continued

    torch.set_num_threads(1)
    home = Path(folder)
    row = from_plain(Row, json.loads((home / ROW).read_text(encoding="utf-8")))
    with quiet():
        found, wanted = continued(TransformersSubject(families.build(name), name), home)
    allowed = row.cell("saved").tolerance or 0.0
    apart = compared(found, wanted, allowed)
    kept = apart.largest <= allowed
    note = "in a fresh process"
    cell = Cell("saved", "kept" if kept else "broken", apart.largest, allowed, apart.where, note)
    _write(_with(row, cell), home)


def examine_family(name: str, left: Path | None = None) -> Row:
    """The row of a family, or why there is none."""
    try:
        model = families.build(name)
    except UserError as error:
        return Row(name, missing=str(error))
    # A config of somebody else may refuse to be small in any way: that is what the row says.
    except Exception as error:
        return Row(name, missing=f"{type(error).__name__}: {first_line(error)}"[:300])
    subject = TransformersSubject(model, name)
    subject.left, subject.made_by = left, families.lines(name)
    row = examine(subject, [*PROMISES.values()])
    return replace(row, cells=tuple(_expected(name, cell) for cell in row.cells))


def _expected(family: str, cell: Cell) -> Cell:
    """The cell of a family whose way of reading makes no such promise is a limit."""
    promises, reason = families.EXPECTED.get(family, ((), ""))
    if cell.verdict not in BAD or not (cell.promise in promises or "every one" in promises):
        return cell
    return replace(cell, verdict="limit", note=f"{reason}; {cell.note}".rstrip("; "))
