"""Write docs/cost.md: what the ``paper`` presets cost, going by one measured step of each model.

``python docs/write_cost.py`` takes minutes of one core. Trainings are planned as the study itself
plans them; none is run. ``STUDY …`` measures some studies only, and prints the table.
"""

from __future__ import annotations

import math
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import STUDIES, find
from mnemoscope.studies.engines.engine import Engine, Outcome, Task, using
from mnemoscope.studies.estimate import duration, seconds_of
from mnemoscope.studies.sizes import count
from mnemoscope.training.config import RunConfig
from mnemoscope.training.loop import step_seconds

PAGE = Path(__file__).with_name("cost.md")
# Of one GPU: operations a second that small models reach, and seconds that a step takes at least
# because its kernels have to be started. Assumed, not measured.
GPU_FLOPS, GPU_LEAST = 2e13, 0.01
CORES = (2, 64)
# Rows of the batch that is timed: a step of large models on a whole one takes many minutes, and
# its rows are computed alike.
TIMED_ROWS = 2
# What a step may take of memory, in bytes: one that needs more is not timed.
MOST_MEMORY = 16 * 2**30

HEAD = """# What it costs

Estimates, written by `docs/write_cost.py`: one optimiser step of each kind of model was timed on
one core of the machine that wrote this page, with two rows of its batch, from which the time of
all rows follows in proportion. It counts for all steps, seeds and learning rates of the `paper`
preset; evaluation and measurements come on top. 64 cores train as many models at once, if there
are as many. Operations are 6 for every weight and token (Kaplan et al. 2020), without
attention's share; memory is that of the largest model's step. A GPU is assumed to reach 20 TFLOP/s
on models this small, and to need 10 ms for a step at least; it was not measured.

"""


class PlannedError(Exception):
    """All trainings of a study are known; none is begun."""


class Plan(Engine):
    """An engine that computes nothing: it notes what it would be given."""

    name = "plan"

    def announce(self, label: str, trials: Sequence[RunConfig], jobs: int) -> None:
        """Note them all, and go no further."""
        raise PlannedError(list(trials))

    def each(self, tasks: Sequence[Task], jobs: int) -> Iterator[tuple[str, Outcome]]:
        """Never reached by a study that says beforehand what it trains."""
        raise UserError("its trainings are not announced before they begin")


@dataclass(frozen=True)
class Cost:
    """What all trainings of a study cost; ``longest`` is the longest of them, in seconds."""

    trainings: int
    seconds: float
    flops: float
    gpu: float
    most_bytes: int
    longest: float


def planned(study: str) -> list[RunConfig]:
    """Every training of the preset ``paper``, those of later rounds included."""
    with tempfile.TemporaryDirectory() as folder, using(Plan()):
        try:
            find("study", study).preset("paper").run(Path(folder), 2)
        except PlannedError as plan:
            found: list[RunConfig] = plan.args[0]
            return found
    raise UserError("it trains nothing")


def cost(trials: Sequence[RunConfig]) -> Cost:
    """Time one step of each kind of model, and count the rest."""
    each: dict[str, float] = {}

    def timed(kind: RunConfig) -> float:
        rows = min(TIMED_ROWS, kind.training.batch)
        few = kind.training.model_copy(update={"batch": rows, "accumulate": 1})
        # CPU time of the one thread: the machine may have other work meanwhile.
        try:
            seconds = step_seconds(replace(kind, training=few), time.process_time)
        except RuntimeError as error:
            if "memory" not in str(error):
                raise
            seconds = math.inf
        each[repr(kind)] = seconds * kind.training.batch / rows
        return each[repr(kind)]

    seconds = seconds_of(trials, timed)
    flops = [6.0 * count(one.model) * one.training.batch * _tokens(one) for one in trials]
    steps = [one.training.steps for one in trials]
    pairs = list(zip(flops, steps, strict=True))
    return Cost(
        len(trials),
        seconds,
        sum(a * b for a, b in pairs),
        sum(b * max(a / GPU_FLOPS, GPU_LEAST) for a, b in pairs),
        max(one.bytes for one in trials),
        max(steps) * max(each.values()),
    )


def _tokens(one: RunConfig) -> int:
    return one.task.longest or one.stretch


def row(study: str) -> str:
    """A line of the table."""
    try:
        found = cost(planned(study))
    except UserError as error:
        return f"| {study} | not estimated: {str(error).splitlines()[0]} | | | | | |"
    # A training is not cut into parts: the longest one sets the least time.
    times = [max(found.seconds / min(n, found.trainings), found.longest) for n in CORES]
    said = [
        duration(one) if math.isfinite(one) else f"more than {MOST_MEMORY >> 30} GiB a step"
        for one in (*times, found.gpu)
    ]
    return (
        f"| {study} | {found.trainings} | {found.flops:.1e} | "
        f"{found.most_bytes / 2**20:,.0f} MiB | " + " | ".join(said) + " |"
    )


def main() -> None:
    """Write the page, or print the lines of some studies."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    names = sys.argv[1:] or [name for name in STUDIES if "paper" in find("study", name).presets]
    lines = [
        "| study | trainings | operations | memory of a step | 2 cores | 64 cores | one GPU |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name in names:
        lines.append(row(name))
        print(lines[-1], file=sys.stderr, flush=True)
    if sys.argv[1:]:
        print("\n".join(lines))
        return
    PAGE.write_text(HEAD + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
