"""One progress bar for all long work: rate and time left; silent in CI and in pipes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.1f}/s" if task.speed else "–/s", style="progress.data.speed")


@contextmanager
def progress(
    label: str, total: int, done: int = 0, silent: bool = False
) -> Iterator[Callable[[int, str], None]]:
    """Yield ``show(done, note)``, which moves the bar to ``done`` out of ``total``."""
    if silent or os.environ.get("CI") or not sys.stderr.isatty():
        yield lambda done, note: None
        return
    bar = Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
    )
    with bar:
        task = bar.add_task(label, total=total, completed=done, note="")
        yield lambda done, note: bar.update(task, completed=done, note=note)
