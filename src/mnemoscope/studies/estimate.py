"""How long trainings will take on this machine, from one timed step of each kind of model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rich.console import Console

from mnemoscope.training.config import RunConfig

# Fewer steps in all are over before they are timed.
WORTH_SAYING = 500


def announce(label: str, trials: Sequence[RunConfig], jobs: int) -> None:
    """Say before they begin how many trainings there are and how long they will take."""
    if sum(one.training.steps for one in trials) < WORTH_SAYING:
        return
    from mnemoscope.training.loop import step_seconds

    at_once = min(jobs, len(trials))
    wall = seconds_of(trials, step_seconds) / at_once
    many = f"{len(trials)} trainings, {at_once} at a time," if len(trials) > 1 else "one training"
    Console(stderr=True, soft_wrap=True).print(
        f"{label}: {many} about {duration(wall)} on this machine, going by a step of each kind "
        "of model.",
        highlight=False,
    )


def seconds_of(trials: Sequence[RunConfig], timed: Callable[[RunConfig], float]) -> float:
    """Steps of all trainings times the seconds of one, timed once for all seeds and rates."""
    seconds: dict[str, float] = {}
    total = 0.0
    for one in trials:
        kind = kind_of(one)
        if repr(kind) not in seconds:
            seconds[repr(kind)] = timed(kind)
        total += one.training.steps * seconds[repr(kind)]
    return total


def kind_of(one: RunConfig) -> RunConfig:
    """What a training shares with those of other seeds, learning rates and numbers of steps."""
    alike = {"seed": 0, "lr": 1e-3, "steps": 2, "warmup": 0, "evaluate_every": 2}
    kind = replace(one, training=one.training.model_copy(update=alike))
    if "curriculum" in type(one.task).model_fields:
        # The first steps are short ones: time those that follow, and rather say too much.
        kind = replace(kind, task=one.task.model_copy(update={"curriculum": ()}))
    return kind


def duration(seconds: float) -> str:
    """``40 seconds``, ``3 minutes``, ``2.5 hours``, ``12 days``."""
    if seconds < 90:
        return f"{max(1, round(seconds))} seconds"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} minutes"
    if seconds < 96 * 3600:
        return f"{seconds / 3600:.1f} hours"
    return f"{seconds / 86400:,.0f} days"
