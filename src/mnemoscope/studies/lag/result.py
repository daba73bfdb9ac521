"""The result of the study `lag`: what was asked of every training, and one episode from inside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.studies.study import Sized

WORD = "hello"
LETTERS = tuple(sorted(set(WORD)))


@dataclass(frozen=True)
class Asked:
    """Held-out answers of one training, after every wait."""

    accuracy: tuple[float, ...]
    bits: tuple[float, ...]
    choosing_bits: float
    seconds: float


@dataclass(frozen=True)
class Training:
    """One training; ``asked`` is None, and ``diverged`` says why, where it left finite numbers."""

    memory: str
    lr: float
    seed: int
    asked: Asked | None
    diverged: str = ""


@dataclass(frozen=True)
class Model(Sized):
    """A contestant at its best learning rate; bytes of state are those after every wait."""

    state_bytes: tuple[int, ...]


@dataclass(frozen=True)
class GatesSeen:
    """The gates of the first layer over one length of episode.

    means     by gate and token; lows and highs leave a tenth of rows and units outside
    example   (tokens, units) of the gate that keeps, in one episode
    read      that episode: letters are symbols, dots are noise, question marks ask
    """

    keeping: str
    names: tuple[str, ...]
    means: tuple[tuple[float, ...], ...]
    lows: tuple[tuple[float, ...], ...]
    highs: tuple[tuple[float, ...], ...]
    example: tuple[tuple[float, ...], ...]
    read: tuple[str, ...]


@dataclass(frozen=True)
class LagResult:
    """``spelling`` has, by memory and seed, next-letter probabilities after every letter."""

    waits: tuple[int, ...]
    trained: int
    items: int
    symbols: int
    models: dict[str, Model]
    trainings: tuple[Training, ...]
    gates: dict[str, GatesSeen]
    spelling: dict[str, tuple[tuple[tuple[float, ...], ...], ...]]

    def tries(self, memory: str, lr: float | None = None) -> list[Training]:
        """All trainings of a memory, or those at one learning rate."""
        return [t for t in self.trainings if t.memory == memory and lr in (None, t.lr)]

    @property
    def longest_trained(self) -> int:
        """The longest wait tested that training had too."""
        return max(wait for wait in self.waits if wait <= self.trained)

    def accuracy(self, memory: str) -> Floats:
        """Accuracy at the best learning rate, (seeds, waits); chance where training diverged."""
        chance = (1 / self.symbols,) * len(self.waits)
        tries = self.tries(memory, self.models[memory].lr)
        return np.array([t.asked.accuracy if t.asked else chance for t in tries])

    def bits(self, memory: str) -> Floats:
        """Bits per episode at the best learning rate, (seeds, waits); 0 where it diverged."""
        nothing = (0.0,) * len(self.waits)
        tries = self.tries(memory, self.models[memory].lr)
        return np.array([t.asked.bits if t.asked else nothing for t in tries])

    def half_lives(self, memory: str) -> list[int]:
        """Per seed, the last wait before accuracy falls half-way to chance; 0 if there is none."""
        fallen = self.accuracy(memory) < (1 + 1 / self.symbols) / 2
        lasted = np.where(fallen.any(1), fallen.argmax(1), len(self.waits))
        return [self.waits[count - 1] if count else 0 for count in lasted.tolist()]
