"""The result of the study `infinite`, and the loss that nothing without a past can beat."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mnemoscope.core.arrays import Floats

Kind = Literal["signal", "transformer_xl", "both"]
Past = Literal["own", "none", "other"]

# What is attached, as the page calls it.
KINDS: dict[Kind, str] = {
    "signal": "∞-former's signal",
    "transformer_xl": "Transformer-XL's cache",
    "both": "cache and signal",
}


@dataclass(frozen=True)
class Gain:
    """Nats per token that the own past saves, with the ends of the 95 % interval over windows."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Fit:
    """One memory that was trained on one frozen model.

    losses   mean loss (nats) at each position of a window but the first, after each past
    bytes    that one text carries between windows
    windows  that were read to measure it
    """

    losses: dict[Past, tuple[float, ...]]
    over_none: Gain
    over_other: Gain
    bytes: int
    windows: int

    def loss(self, past: Past) -> float:
        """Mean over the positions of a window."""
        return float(np.mean(self.losses[past]))


@dataclass(frozen=True)
class Measured:
    """All kinds of memory on one model."""

    fits: dict[Kind, Fit]


@dataclass(frozen=True)
class Attached:
    """All kinds of memory on the models of one sort of text, seed by seed."""

    seeds: tuple[Measured, ...]

    def fits(self, kind: Kind) -> list[Fit]:
        """Those of one kind of memory."""
        return [one.fits[kind] for one in self.seeds]

    def gains(self, kind: Kind, over: Literal["none", "other"]) -> Floats:
        """Gain over no past or another text's, and the ends of its interval, (seeds, 3)."""
        found = [one.over_none if over == "none" else one.over_other for one in self.fits(kind)]
        return np.array([(gain.mean, gain.low, gain.high) for gain in found])


@dataclass(frozen=True)
class InfiniteResult:
    """Made-up texts use ``own`` of ``vocab_size`` words; windows are of so many tokens."""

    vocab_size: int
    own: int
    window: int
    topic_window: int
    made_up: Attached
    topics: Attached


def best_without_past(vocab_size: int, own: int, length: int) -> list[float]:
    """The lowest loss any model can have at each position of a window of made-up text.

    Of the ``own`` words, d have been seen in the window: the next is one of them with 1/own each,
    or else any of the others, which all look the same.
    """
    seen = np.zeros(own + 1)
    seen[0] = 1.0
    d = np.arange(own + 1)
    new = 1 - d / own
    with np.errstate(divide="ignore", invalid="ignore"):
        surprise = np.where(new > 0, new * (np.log(vocab_size - d) - np.log(new)), 0.0)
    cost = d / own * math.log(own) + surprise
    found = []
    for _ in range(length):
        found.append(float(seen @ cost))
        moved = seen * new
        seen = seen - moved
        seen[1:] += moved[:-1]
    return found
