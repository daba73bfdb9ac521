"""The page docs/cost.md: what trainings of the `paper` presets cost, in tables and words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from campaign import scheduler
from cost.planned import SENTENCE_WORDS
from cost.steps import ENOUGH, LONG, MOST_FLOPS, Kind, Step
from mnemoscope.studies.estimate import duration

# Of one GPU: operations a second that small models reach, and seconds that it takes to start one
# operation of torch. Assumed, not measured.
GPU_FLOPS, GPU_START = 2e13, 5e-6
CORES = (2, 64)

HEAD = """# What it costs

What the `paper` presets would cost: estimates, written by `python -m cost` on {processor}. No preset
was run.

**How.** A study says itself what it would train. Of every kind of training one optimiser step was timed
on one core, with four times as many of its rows again and again until it took {enough:g} s; the time of all
rows lies on the line through the last two. Where a row alone takes over {long:g} s, rows count in proportion; models that need
more than {most:.0e} operations a row were timed with few layers, and all layers lie on a line too. {checked}
Times that a step takes count for all steps, seeds and learning rates; evaluation and measurements come on
top. 64 cores train as many models at once, if there are as many; that cores share their memory is left out.

**Operations** are 6 for every weight and token (Kaplan et al. 2020), without attention's share; of models of
transformers they are counted by torch. **Bytes** are weights, gradients, two moments and what is kept of every
token for the backward pass, without attention maps. **A GPU** is assumed to reach {gpu:g} TFLOP/s on models
this small and to need {start:g} µs to start an operation of torch, of which there are as many in a step as
were counted here: it takes the longer of both. None was measured.

`books` is given made-up books, `evolution` and `translation` made-up pairs of sentences, all with {words} words
a sentence and as large a vocabulary as the preset allows; what `documents` reads, pythia-1b, was replaced by
two blocks of its size with random weights.

## By study

"""

MODELS = """
## By model

The largest of every kind of model that a study trains; operations, bytes and seconds of one step on one core.

"""

SIMULATED = """
## A scheduler among faults, simulated

No measurement: `campaign/scheduler.py` simulates [claim files](cluster.md) for 1 000 trials on 100 workers.
Trials take ten minutes on average, some over an hour; a checkpoint is written every two minutes, a claim
is taken over after 60 seconds of silence, a worker that was killed is back a minute later.

{table}

*Ideal* is the same work without a gap: what is lost without any kill is the wait for the last long trials,
which start late because trials are taken in order. *Done twice* (training since the last checkpoint) and
*silent* (until a claim may be taken over) are shares of all workers' time. The busiest minutes for the folder are
the last ones, when workers without a trial watch those of others.
"""


@dataclass(frozen=True)
class Cost:
    """What all trainings of a study cost; ``longest`` is the longest of them; times in seconds."""

    trainings: int
    flops: float
    bytes: int
    seconds: float
    longest: float
    gpu: float

    def on_cores(self, cores: int) -> float:
        """A training is not cut into parts: the longest one sets the least time."""
        return max(self.seconds / min(cores, self.trainings), self.longest)


def gpu_seconds(step: Step) -> float:
    """What a step is assumed to take there."""
    return max(step.flops / GPU_FLOPS, step.started * GPU_START)


def cost(kinds: Sequence[Kind]) -> Cost:
    """Of all kinds together."""
    steps = [sum(kind.steps) for kind in kinds]
    both = list(zip(kinds, steps, strict=True))
    return Cost(
        trainings=sum(len(kind.steps) for kind in kinds),
        flops=sum(kind.step.flops * count for kind, count in both),
        bytes=max(kind.step.bytes for kind in kinds),
        seconds=sum(kind.step.seconds * count for kind, count in both),
        longest=max(kind.step.seconds * max(kind.steps) for kind in kinds),
        gpu=sum(gpu_seconds(kind.step) * count for kind, count in both),
    )


def by_study(found: Mapping[str, Sequence[Kind] | str]) -> str:
    """A row for each; where nothing is known, why."""
    lines = [
        "| study | trainings | operations | most memory | 2 cores | 64 cores | one GPU |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for study, kinds in found.items():
        if isinstance(kinds, str):
            lines.append(f"| {study} | not estimated: {kinds} | | | | | |")
            continue
        one = cost(kinds)
        times = [duration(seconds) for seconds in (*map(one.on_cores, CORES), one.gpu)]
        lines.append(
            f"| {study} | {one.trainings} | {one.flops:.1e} | {size(one.bytes)} | "
            f"{' | '.join(times)} |"
        )
    return "\n".join(lines) + "\n"


def by_model(kinds: Sequence[Kind]) -> str:
    """The largest of all that a study trains with one memory, with what a step of it takes."""
    largest: dict[tuple[str, str], Kind] = {}
    for kind in kinds:
        key = kind.study, kind.model.partition(",")[0]
        if key not in largest or kind.step.flops > largest[key].step.flops:
            largest[key] = kind
    lines = [
        "| study | model | weights | operations | memory | one core | one GPU |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for kind in largest.values():
        step = kind.step
        lines.append(
            f"| {kind.study} | {kind.model} | {kind.weights:,} | {step.flops:.1e} | "
            f"{size(step.bytes)} | {step.seconds:.2g} s | {gpu_seconds(step):.2g} s |"
        )
    return "\n".join(lines) + "\n"


def size(held: int) -> str:
    """In the unit that memories of machines are told in."""
    return f"{held / 2**30:.1f} GiB" if held >= 2**30 else f"{max(1, held >> 20)} MiB"


def checked(compared: Sequence[tuple[str, float, float]]) -> str:
    """How far estimates were from whole steps: names, estimates and measurements in seconds."""
    said = [
        f"{name} {estimate:.2g} s, measured {measured:.2g} s"
        for name, estimate, measured in compared
    ]
    worst = max(abs(estimate / measured - 1) for _, estimate, measured in compared)
    return (
        f"Checked on whole steps: {'; '.join(said)}. Estimates were off by at most {worst:.0%}, "
        "which is about the error to expect of all times here."
    )


def head(processor: str, checked: str) -> str:
    """How all of it was found."""
    return HEAD.format(
        processor=processor,
        checked=checked,
        enough=ENOUGH,
        long=LONG,
        most=MOST_FLOPS,
        gpu=GPU_FLOPS / 1e12,
        start=GPU_START * 1e6,
        words=SENTENCE_WORDS,
    )


def simulated() -> str:
    """The part that needs no measurement."""
    return SIMULATED.format(table=scheduler.table())
