"""Rates that short trainings try, for studies that choose one before training what they report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mnemoscope.studies.study import Diverged


@dataclass(frozen=True)
class Tried:
    """What a short training that tried a rate came to: its loss on data that are for that."""

    loss: float


@dataclass(frozen=True)
class TriedRate:
    """A rate that was tried for a model, and how that ended."""

    model: str
    lr: float
    outcome: Tried | Diverged

    @property
    def loss(self) -> float:
        """On data for choosing; infinite where the training diverged."""
        return self.outcome.loss if isinstance(self.outcome, Tried) else float("inf")


def best_rate(tried: Sequence[TriedRate], model: str, default: float) -> float:
    """The rate with the lowest loss; ``default`` where none was tried."""
    own = [one for one in tried if one.model == model]
    return min(own, key=lambda one: one.loss).lr if own else default
