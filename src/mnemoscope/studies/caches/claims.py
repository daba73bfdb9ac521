"""What is claimed of compressed caches, each with its size, and what a model must recall for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.core.statistics import Interval
from mnemoscope.report.claims import Claim, Gate
from mnemoscope.studies.caches.result import CHOOSING, CONTROLS, FULL, LABELS, CachesResult

# Of the bits of an answer, what counts.
LEAST = 1 / 20


def gate(result: CachesResult, task: str) -> Gate:
    """Whether the models recall anything with everything there to be seen."""
    least = LEAST * result.tasks[task].most
    found = [one.low - least for one in result.mean_bits(task, FULL)]
    return Gate(f"{task}: at least {least:.2f} bits recalled with the full cache", found)


def sure(gains: Sequence[Interval]) -> Floats:
    """Of every interval, the value that is nearest to nothing."""
    return np.array([np.clip(0.0, one.low, one.high) for one in gains])


def _more(
    result: CachesResult,
    task: str,
    cache: str,
    over: str,
    ages: slice = slice(None),
    where: str = "",
) -> Claim:
    text = f"{task}: {cache} recalls more than {over}{where}"
    effects = sure(result.gain(task, cache, over, ages))
    least = round(LEAST * result.tasks[task].most, 2)
    return Claim(text, effects, least, "bits", [gate(result, task)])


def window_forgets(result: CachesResult, task: str) -> Claim:
    """Whether a window loses what is older than itself, at the fewest bytes."""
    window = result.at(result.levels[-1])["window"]
    return _more(
        result, task, FULL, window, result.beyond(task, window), " of what is older than that"
    )


def rounding_costs(result: CachesResult, task: str, bits: int) -> Claim:
    """Whether anything is lost in so many bits."""
    return _more(result, task, FULL, result.at(bits)["quantised"])


def rounding_over_dropping(result: CachesResult, task: str, bits: int) -> list[Claim]:
    """Whether all tokens in few bits are worth more than few tokens in all bits."""
    known = result.at(bits)
    return [_more(result, task, known["quantised"], known[kind]) for kind in CONTROLS]


def choosing_over_not(result: CachesResult, task: str, bits: int) -> list[Claim]:
    """Whether tokens chosen by attention are worth more than those of the controls."""
    known = result.at(bits)
    return [
        _more(result, task, known[kind], known[control])
        for kind in CHOOSING
        for control in CONTROLS
    ]


def claims(result: CachesResult, task: str) -> list[Claim]:
    """All that is claimed of a task."""
    found = [window_forgets(result, task)]
    quantised = [bits for kind, bits in result.caches.values() if kind == "quantised"]
    found += [rounding_costs(result, task, bits) for bits in quantised]
    for bits in result.levels:
        found += rounding_over_dropping(result, task, bits)
        found += choosing_over_not(result, task, bits)
    return found


def winners(result: CachesResult, task: str, bits: int) -> list[str]:
    """Of those that choose by attention, who surely beats both controls."""
    known = result.at(bits)
    return [
        LABELS[kind]
        for kind in CHOOSING
        if all(
            _more(result, task, known[kind], known[control]).verdict == "seen"
            for control in CONTROLS
        )
    ]
