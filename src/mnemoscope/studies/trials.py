"""Many small trainings side by side, each in a process and a folder of its own.

A trial that was finished is not run again, one that was cut off is resumed: a study can be
stopped at any moment and started again with the same command.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mnemoscope.files import write_whole
from mnemoscope.progress import progress
from mnemoscope.training.config import RunConfig


@dataclass(frozen=True)
class Trial:
    """A run with a name, which is also the name of its folder."""

    name: str
    config: RunConfig


# Looks at a finished run's folder and returns plain values that JSON can hold.
Examine = Callable[[Path], dict[str, Any]]


def run_trials(
    trials: Sequence[Trial],
    folder: Path,
    examine: Examine,
    jobs: int,
    label: str,
    keep: Callable[[str, dict[str, Any]], None] = lambda name, values: None,
) -> list[dict[str, Any]]:
    """Train all trials, ``jobs`` at a time, and return what ``examine`` says of each, in order.

    A trial whose loss left the finite numbers gives ``{"diverged": reason}`` and no more.
    ``keep`` is told of each as it is finished, in the order in which they are.
    """
    import joblib

    # One thread each: two processes with one thread do more small steps than one with two.
    pool = joblib.Parallel(
        n_jobs=jobs, return_as="generator_unordered", inner_max_num_threads=1, backend="loky"
    )
    found: dict[str, dict[str, Any]] = {}
    with progress(label, len(trials)) as show:
        work = (joblib.delayed(_run)(trial, folder, examine, os.getpid()) for trial in trials)
        for name, values in pool(work):
            found[name] = values
            keep(name, values)
            show(len(found), name)
    return [found[trial.name] for trial in trials]


def _run(trial: Trial, folder: Path, examine: Examine, owner: int) -> tuple[str, dict[str, Any]]:
    from mnemoscope.training.loop import DivergedError, resume, train

    if os.getpid() != owner:
        _settle(owner)
    home = folder / trial.name
    answer = home / "examined.json"
    if answer.is_file():
        return trial.name, json.loads(answer.read_text())
    try:
        begun = (home / "config.yaml").is_file()
        run = resume(home, silent=True) if begun else train(trial.config, home, silent=True)
        values = examine(run.folder)
    except DivergedError as error:
        values = {"diverged": str(error)}
    write_whole(answer, json.dumps(values).encode())
    return trial.name, values


# Trains and measures what a name stands for; plain values that JSON can hold.
Measure = Callable[[str], dict[str, Any]]


def measure_all(
    names: Sequence[str], measure: Measure, folder: Path, jobs: int, label: str
) -> dict[str, dict[str, Any]]:
    """Measure every name, ``jobs`` at a time, and keep each answer in a file of its own.

    For trainings of a few seconds, which are not worth a run folder and checkpoints.
    """
    import joblib

    pool = joblib.Parallel(
        n_jobs=jobs, return_as="generator_unordered", inner_max_num_threads=1, backend="loky"
    )
    found: dict[str, dict[str, Any]] = {}
    with progress(label, len(names)) as show:
        work = (joblib.delayed(_measure)(name, measure, folder, os.getpid()) for name in names)
        for name, values in pool(work):
            found[name] = values
            show(len(found), name)
    return {name: found[name] for name in names}


def _measure(name: str, measure: Measure, folder: Path, owner: int) -> tuple[str, dict[str, Any]]:
    if os.getpid() != owner:
        _settle(owner)
    kept = folder / f"{name.replace(' ', '-')}.json"
    if kept.is_file():
        return name, json.loads(kept.read_text())
    values = measure(name)
    write_whole(kept, json.dumps(values).encode())
    return name, values


@cache
def _settle(owner: int) -> None:
    """Make a worker process one that computes on one thread and ends with its owner."""
    import torch

    torch.set_num_threads(1)
    # Networks that fail to learn fill up with denormal numbers, which cost twice the time.
    torch.set_flush_denormal(True)

    def end_with_owner() -> None:
        while os.getppid() == owner:
            time.sleep(0.2)
        os._exit(1)  # at any moment: the trial goes on from its last checkpoint

    threading.Thread(target=end_with_owner, daemon=True).start()
