"""What a step costs on one core, from steps with few rows and, of deep models, few layers.

A step is timed with four times as many rows again and again, until it takes long enough; the time
of all rows lies on the line through the last two. A single row would not tell: to go through the
weights once takes about the same time for one row as for some. Of models so large that one row
takes seconds, rows count in proportion, and layers lie on the line through two depths.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from mnemoscope.data.batch import Task
from mnemoscope.studies.sizes import count
from mnemoscope.training.config import RunConfig
from mnemoscope.training.loop import step_seconds

# Times as many rows each time; seconds of a step that is long enough, and of one whose single row
# speaks for all.
MORE, ENOUGH, LONG = 4, 0.5, 2.0
# Operations that a row of a whole model may take; of more, fewer layers are timed.
MOST_FLOPS = 2e11
# Batches from which the mean number of tokens is taken: those of some tasks differ a lot.
BATCHES = 400
# Steps that `step_seconds` times, one or the other; seeds that are tried for steps of mean length.
FIRST, OTHERS = range(1), range(1, 4)
SEEDS, NEAR = 400, 0.1


@dataclass(frozen=True)
class Step:
    """What an optimiser step takes: seconds of one core; operations and bytes are estimates.

    ``started`` is how many operations torch starts one after the other, views not counted.
    """

    seconds: float
    flops: float
    started: float
    bytes: int = 0


@dataclass(frozen=True)
class Kind:
    """Trainings that differ in seed, learning rate and number of steps only.

    ``steps`` are those of every training, ``weights`` the numbers of its model.
    """

    study: str
    model: str
    steps: tuple[int, ...]
    weights: int
    step: Step


class Started(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations, those of the backward pass and of the optimiser too."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Count one, unless it only looks at a tensor in another way."""
        self.count += not func.is_view
        return func(*args, **(kwargs or {}))


def step_of(kind: RunConfig, depths: Sequence[int] = ()) -> Step:
    """What a step of a kind of training takes, all its rows and layers."""
    depths = depths or timed_depths(kind)
    seconds, started = (
        along(depths, [ask(cut(kind, layers=depth)) for depth in depths], kind.model.layers)
        for ask in (_seconds, _started)
    )
    return Step(seconds, _flops(kind, kind.training.batch), started, kind.bytes)


def timed_depths(kind: RunConfig) -> tuple[int, ...]:
    """Numbers of layers that are timed: all, or where those are too large, two small numbers."""
    # Patterns that layers take in turn are timed in whole turns.
    turn = str(getattr(kind.model, "pattern", "")).count(",") + 1
    if _flops(kind, 1) <= MOST_FLOPS or kind.model.layers <= 2 * turn:
        return (kind.model.layers,)
    return (turn, 2 * turn)


def cut(kind: RunConfig, rows: int | None = None, layers: int | None = None) -> RunConfig:
    """The same training with fewer rows or layers."""
    training, model = kind.training, kind.model
    if rows is not None:
        training = training.model_copy(update={"batch": rows, "accumulate": 1})
    if layers is not None:
        model = model.model_copy(update={"layers": layers})
    return replace(kind, training=training, model=model)


def at_all_rows(timed: Callable[[int], float], whole: int) -> float:
    """Seconds of ``whole`` rows, from steps with as few as can be timed."""
    rows = [1]
    seconds = [timed(1)]
    if seconds[0] > LONG:
        return whole * seconds[0]
    while rows[-1] < whole and (seconds[-1] < ENOUGH or len(rows) == 1):
        rows.append(min(MORE * rows[-1], whole))
        seconds.append(timed(rows[-1]))
    return along(rows[-2:], seconds[-2:], whole)


def along(sizes: Sequence[int], values: Sequence[float], whole: int) -> float:
    """The value at ``whole`` on the line through two sizes, which never falls; of one, its own."""
    if sizes[-1] == whole or len(sizes) == 1:
        return values[-1]
    rise = (values[-1] - values[0]) / (sizes[-1] - sizes[0])
    return values[-1] + max(0.0, rise) * (whole - sizes[-1])


def _seconds(kind: RunConfig) -> float:
    one = typical(kind)
    return at_all_rows(lambda rows: timed(one, rows), kind.training.batch)


def timed(kind: RunConfig, rows: int) -> float:
    """Seconds of a step with so many rows that reads as many tokens as steps do on average."""
    one, looks = cut(kind, rows), 0

    def clock() -> float:
        # CPU time: the machine may have other work meanwhile.
        nonlocal looks
        looks += 1
        return time.process_time()

    seconds = step_seconds(one, clock)
    # It looks twice when the first step is long enough to speak for all, then at three more.
    read = _tokens(one, FIRST if looks == 2 else OTHERS)
    return seconds * rows * tokens_of_a_row(one.task, one.stretch) / read


def typical(kind: RunConfig) -> RunConfig:
    """The same with a seed whose first steps read about as many tokens as steps do on average."""
    mean = kind.training.batch * tokens_of_a_row(kind.task, kind.stretch)
    seeded = (
        replace(kind, training=kind.training.model_copy(update={"seed": seed}))
        for seed in range(SEEDS)
    )

    def off(one: RunConfig) -> float:
        return max(abs(_tokens(one, steps) / mean - 1) for steps in (FIRST, OTHERS))

    nearest, least = kind, math.inf
    for one in seeded:
        if least < NEAR:
            break
        if (found := off(one)) < least:
            nearest, least = one, found
    return nearest


def _started(kind: RunConfig) -> float:
    with Started() as started:
        return step_seconds(cut(kind, 1), lambda: float(started.count))


def _flops(kind: RunConfig, rows: int) -> float:
    return 6.0 * count(kind.model) * rows * tokens_of_a_row(kind.task, kind.stretch)


@cache
def tokens_of_a_row(task: Task, length: int) -> float:
    """The mean over many steps."""
    return _mean_tokens(task, 1, range(BATCHES), length, 0)


def _tokens(kind: RunConfig, steps: range) -> float:
    settings = kind.training
    return _mean_tokens(kind.task, settings.batch, steps, kind.stretch, settings.seed)


def _mean_tokens(task: Task, rows: int, steps: range, length: int, seed: int) -> float:
    found = [task.batch(step, rows, seed=seed, length=length) for step in steps]
    # Of a translator, half of those on both sides, as half of it reads each.
    sides = [side for one in found for side in (one.tokens, one.source) if side is not None]
    return sum(side.size for side in sides) / len(sides)
