"""One way to show all long work: a bar in a terminal, else a line now and then; silent in CI."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

Show = Callable[[int, str], None]
# Seconds before the first line, and between two: short work says nothing at all.
FIRST, EVERY = 10, 30


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.1f}/s" if task.speed else "–/s", style="progress.data.speed")


@contextmanager
def progress(label: str, total: int, done: int = 0, silent: bool = False) -> Iterator[Show]:
    """Yield ``show(done, note)``, which says that ``done`` out of ``total`` are done."""
    if silent or os.environ.get("CI"):
        yield lambda done, note: None
        return
    console = Console(stderr=True)
    # In a notebook, rich draws with widgets; where there are none it would draw nothing.
    widgets = console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None
    if not sys.stderr.isatty() and not widgets:
        yield _lines(label, total, done)
        return
    bar = Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
    )
    with bar:
        task = bar.add_task(label, total=total, completed=done, note="")
        yield lambda done, note: bar.update(task, completed=done, note=note)


def _lines(label: str, total: int, first: int) -> Show:
    """For a log, a pipe or a notebook: a line every so often."""
    began = time.monotonic()
    due = began + FIRST

    def show(done: int, note: str) -> None:
        nonlocal due
        now = time.monotonic()
        if now < due or done <= first:
            return
        due = now + EVERY
        each = (now - began) / (done - first)
        rate = f"{1 / each:.1f}/s" if each < 1 else f"{each:.1f} s each"
        left = timedelta(seconds=round(each * (total - done)))
        said = [label, f"{done}/{total}", rate, f"{left} left", note]
        sys.stderr.write("  ".join(filter(None, said)) + "\n")
        sys.stderr.flush()

    return show
