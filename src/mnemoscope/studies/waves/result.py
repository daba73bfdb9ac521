"""What the study `waves` found, as data that goes to JSON and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import model_validator

from mnemoscope.lenses.heads.summary import Vector
from mnemoscope.lenses.waves.summary import PositionWaves, Tried, WavesSummary

OBJECTIVES = ("LM", "MLM")
# Where the spectrum is drawn as models train.
QUERIES = "layer.0.attention.q"


@dataclass(frozen=True, kw_only=True)
class Checkpoint(PositionWaves):
    """A model in training; before its first step it has no validation loss.

    queries     (F,) power of the first layer's queries by frequency
    attention   (R,) mean attention of the strongest head by offset
    """

    step: int
    loss: float | None
    queries: Vector
    attention: Vector

    @model_validator(mode="before")
    @classmethod
    def _cut(cls, values: Any) -> Any:
        """Results of version 0.1 held the curves of every site and head."""
        held = values if isinstance(values, dict) else {}
        if "queries" in held or "power" not in held:
            return values
        layer, head = np.unravel_index(np.argmax(held["relative"]), np.shape(held["relative"]))
        return held | {
            "queries": held["power"][held["sites"].index(QUERIES)],
            "attention": held["measured"][layer][head],
        }


@dataclass(frozen=True, kw_only=True)
class Ending(Tried):
    """What became of the waves at the end of a training, and what was tried on them."""


@dataclass(frozen=True)
class Examined:
    """One training: the model at every checkpoint, what was tried at its end, seconds of it."""

    checkpoints: tuple[Checkpoint, ...]
    final: Ending
    seconds: float

    @property
    def last(self) -> Checkpoint:
        """The model at the end of its training."""
        return self.checkpoints[-1]


@dataclass(frozen=True)
class WavesTrial:
    """Which training it was, and what was seen; None where its loss left the finite numbers."""

    objective: str
    positions: str
    seed: int
    examined: Examined | None


@dataclass(frozen=True)
class WavesResult:
    """All trainings, and a real model if there was one."""

    positions: tuple[str, ...]
    seeds: int
    steps: int
    length: int
    width: int
    layers: int
    heads: int
    trials: tuple[WavesTrial, ...]
    real: WavesSummary | None

    def of(self, objective: str, kind: str) -> list[WavesTrial]:
        """Every training of a kind of positions."""
        return [t for t in self.trials if (t.objective, t.positions) == (objective, kind)]

    def examined(self, objective: str, kind: str) -> list[Examined]:
        """The same, without those that diverged."""
        return [t.examined for t in self.of(objective, kind) if t.examined is not None]
