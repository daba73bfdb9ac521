"""What the study `waves` found, as data that goes to JSON and back."""

from __future__ import annotations

from dataclasses import dataclass

from mnemoscope.lenses.waves.summary import PositionWaves, WavesSummary

OBJECTIVES = ("LM", "MLM")


@dataclass(frozen=True, kw_only=True)
class Checkpoint(PositionWaves):
    """A model in training; before its first step it has no validation loss."""

    step: int
    loss: float | None


@dataclass(frozen=True)
class Examined:
    """One training: the model at every checkpoint, its end in full, seconds of training."""

    checkpoints: tuple[Checkpoint, ...]
    final: WavesSummary
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
