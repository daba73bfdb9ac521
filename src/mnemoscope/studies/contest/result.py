"""The result of a contest of sparse patterns, and what follows from it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mnemoscope.core.arrays import Floats


@dataclass(frozen=True)
class Curve:
    """Held-out bits of one training against its steps, and the seconds it took."""

    steps: tuple[int, ...]
    bits: tuple[float, ...]
    seconds: float


@dataclass(frozen=True)
class Training:
    """One training; ``curve`` is None, and ``diverged`` says why, where it left finite numbers."""

    model: str
    lr: float
    seed: int
    curve: Curve | None
    diverged: str = ""

    @property
    def bits(self) -> float:
        """Held-out bits at the end of training; ∞ where it diverged."""
        return self.curve.bits[-1] if self.curve else math.inf


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


@dataclass(frozen=True)
class Attended:
    """Attention of a model's first seed on held-out data, by layer.

    distance  mean distance attended over; all rows but a tenth lie from low to high
    even      the same for a layer that attends evenly to all that its pattern allows
    maps      what is drawn of the mean attention weights, rows of a picture; None: not known
    """

    patterns: tuple[str, ...]
    distance: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    even: tuple[float, ...]
    maps: tuple[tuple[tuple[float | None, ...], ...], ...]


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

    def of(self, model: str) -> list[Training]:
        """The trainings of one model at its chosen learning rate, by seed."""
        return [one for one in self.trainings if one.model == model]

    def final_bits(self, model: str) -> Floats:
        """Held-out bits at the end of training, (seeds,); ∞ where it diverged."""
        return np.array([one.bits for one in self.of(model)])
