"""The result of a contest of sparse patterns, and what follows from it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mnemoscope.core.arrays import Floats


@dataclass(frozen=True)
class Curve:
    """Held-out bits of one training against its steps, and the seconds it took.

    tested  bits at the end on data by which nothing was chosen; older results have none
    """

    steps: tuple[int, ...]
    bits: tuple[float, ...]
    seconds: float
    tested: float | None = None


@dataclass(frozen=True)
class Training:
    """One training; ``curve`` is None, and ``diverged`` says why, where it left finite numbers."""

    model: str
    lr: float
    seed: int
    curve: Curve | None
    diverged: str = ""

    @property
    def held_out_bits(self) -> float:
        """Bits at the end of training on what rates are chosen by; ∞ where it diverged."""
        return self.curve.bits[-1] if self.curve else math.inf

    @property
    def bits(self) -> float:
        """Bits of the test, by which nothing was chosen; ∞ where it diverged."""
        tested = self.curve.tested if self.curve else None
        return self.held_out_bits if tested is None else tested


@dataclass(frozen=True)
class Contestant:
    """A pattern: what a step costs, how many it gets, what it attends to and carries.

    pairs        tokens that a token attends to, mean over layers and heads
    state_bytes  measured bytes of one stream, after each of ``ContestResult.state_lengths``
    """

    flop: float
    steps: int
    pairs: float
    lr: float
    state_bytes: tuple[int, ...]


Map = tuple[tuple[float | None, ...], ...]


def distance_bins(length: int) -> list[str]:
    """Distances by powers of two, as named on a page: 0, 1, 2–3, 4–7, … below ``length``."""
    ends = [1 << number for number in range((length - 1).bit_length() + 1)]
    names = [f"{end // 2}–{min(end, length) - 1}" for end in ends]
    return ["0", "1", *names[2:]][: len(ends)]


@dataclass(frozen=True)
class Attended:
    """Attention of a model's first seed on held-out data, by layer.

    distance  mean distance attended over; all rows but a tenth lie from low to high
    even      the same for a layer that attends evenly to all that its pattern allows
    maps      what is drawn of the mean attention weights, rows of a picture; None: not known
    by_distance  (layers, heads, bins) share of attention at each distance; see `distance_bins`
    by_head   the maps of every head, where they are drawn: (layers, heads, rows, columns)
    """

    patterns: tuple[str, ...]
    distance: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    even: tuple[float, ...]
    maps: tuple[Map, ...]
    by_distance: tuple[tuple[tuple[float, ...], ...], ...] = ()
    by_head: tuple[tuple[Map, ...], ...] = ()


@dataclass(frozen=True)
class ContestResult:
    """Who took part, every training at the chosen rate, and the sweep that chose it."""

    length: int
    stride: int
    summaries: int
    seeds: int
    models: dict[str, Contestant]
    trainings: tuple[Training, ...]
    sweep: tuple[Training, ...]
    state_lengths: tuple[int, ...]
    attended: dict[str, Attended]

    @property
    def tested(self) -> bool:
        """Whether rates were chosen on other data than what is reported; older results: no."""
        return all(one.curve is None or one.curve.tested is not None for one in self.trainings)

    def of(self, model: str) -> list[Training]:
        """The trainings of one model at its chosen learning rate, by seed."""
        return [one for one in self.trainings if one.model == model]

    def final_bits(self, model: str) -> Floats:
        """Bits of the test at the end of training, (seeds,); ∞ where it diverged."""
        return np.array([one.bits for one in self.of(model)])
