"""The losses in a result of `books` as arrays, with bootstrap draws of seeds and passages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mnemoscope.core.arrays import Floats
from mnemoscope.core.seeds import derive
from mnemoscope.core.statistics import RESAMPLES as DRAWS
from mnemoscope.core.statistics import bootstrap_weights, quantile_interval
from mnemoscope.report.document import Cell
from mnemoscope.studies.books.passages import starts
from mnemoscope.studies.books.result import BooksResult, Examined

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Estimate:
    """A mean, and the ends of 95 % of the bootstrap draws."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, mean: float, draws: Floats) -> Estimate:
        """Take the interval from draws; those that are not a number say nothing."""
        found = quantile_interval(mean, draws)
        return cls(mean, float(found.low), float(found.high))

    def cells(self, name: str) -> dict[str, Cell]:
        """Return what a figure's table shows of it."""
        return {name: self.mean, "low": self.low, "high": self.high}

    def __str__(self) -> str:
        return f"{self.mean:+.4f} ({self.low:+.4f} to {self.high:+.4f})"


class Losses:
    """What reading cost, by model, seed, passage and stretch of the reading.

    A model all of whose trainings diverged is left out.
    """

    def __init__(self, result: BooksResult) -> None:
        self.result = result
        self.bytes: Floats = np.array([one.bytes for one in result.passages])
        self.probed: Floats = np.array([one.probed for one in result.passages])
        self.books = [one.book for one in result.passages]
        # By model, then by seed.
        self.trials: dict[str, dict[int, Examined]] = {}
        for model in result.models:
            seeds = {
                one.seed: one.outcome
                for one in result.trials
                if one.model == model and isinstance(one.outcome, Examined)
            }
            if seeds:
                self.trials[model] = seeds
        self.models = list(self.trials)
        self.labels = {model: result.models[model].label for model in self.models}
        before = starts(self.bytes.shape[1] + 1, result.segment)
        self.ends: list[int] = before[1:].tolist()
        self.all: Mask = np.full(len(self.ends), True)
        self.warm: Mask = (before[:-1] >= result.warm) & (self.probed.sum(0) > 0)
        self.warm_from = int(before[:-1][self.warm][0])
        # The same passages are drawn for all models: differences between them are paired.
        rng = np.random.default_rng(derive(0, "bootstrap", "passages"))
        self._passages = bootstrap_weights(len(self.books), DRAWS, rng)

    @property
    def remembering(self) -> list[str]:
        """The models that have a memory."""
        return [model for model in self.models if model != "none"]

    def only(self, stretch: int) -> Mask:
        """One stretch of the reading."""
        found: Mask = np.arange(len(self.ends)) == stretch
        return found

    def bits(self, model: str) -> Floats:
        """Bits spent, (seeds, passages, stretches)."""
        return np.array([one.bits for one in self.trials[model].values()])

    def has(self, model: str, control: str) -> bool:
        """Whether a control exists for a model."""
        return control in next(iter(self.trials[model].values())).extra

    def rate(self, model: str, chosen: Mask | None = None, book: str | None = None) -> Floats:
        """Bits per byte of each seed, over some stretches and one book or all, (seeds,)."""
        chosen = self.all if chosen is None else chosen
        rows = [book in (None, one) for one in self.books]
        spent = self.bits(model)[:, rows][:, :, chosen].sum((1, 2))
        found: Floats = spent / self.bytes[rows][:, chosen].sum()
        return found

    def curve(self, model: str) -> Floats:
        """Bits per byte of each seed in each stretch, (seeds, stretches)."""
        found: Floats = self.bits(model).sum(1) / self.bytes.sum(0)
        return found

    def gain(self, model: str, chosen: Mask) -> Estimate:
        """Bits per byte saved against the model without memory."""
        return Estimate.of(self._gain(model, chosen), self._gains(model, chosen))

    def growth(self, model: str, early: Mask, late: Mask) -> Estimate:
        """How much larger the gain is in late stretches than in early ones."""
        mean = self._gain(model, late) - self._gain(model, early)
        return Estimate.of(mean, self._gains(model, late) - self._gains(model, early))

    def cost(self, model: str, control: str, against: str | None = None) -> Estimate:
        """Bits per byte that a control costs after the warm-up, or costs more than another."""
        extra = self._extra(model, control)
        if against is not None:
            extra = extra - self._extra(model, against)
        mean = extra[:, :, self.warm].sum((1, 2)).mean() / self.probed[:, self.warm].sum()
        return Estimate.of(float(mean), self._draws(model, extra, self.probed, self.warm))

    def _extra(self, model: str, control: str) -> Floats:
        return np.array([one.extra[control] for one in self.trials[model].values()])

    def _gain(self, model: str, chosen: Mask) -> float:
        return float(self.rate("none", chosen).mean() - self.rate(model, chosen).mean())

    def _gains(self, model: str, chosen: Mask) -> Floats:
        none, own = (
            self._draws(one, self.bits(one), self.bytes, chosen) for one in ("none", model)
        )
        return none - own

    def _draws(self, model: str, bits: Floats, read: Floats, chosen: Mask) -> Floats:
        """Bits per byte in every draw, (draws,)."""
        rng = np.random.default_rng(derive(0, "bootstrap", "seeds", model))
        drawn = bootstrap_weights(len(bits), DRAWS, rng)
        spent = np.einsum("ds,sp,dp->d", drawn, bits[:, :, chosen].sum(2), self._passages)
        over = self._passages @ read[:, chosen].sum(1)
        # A draw may hold only passages that ended before these stretches.
        found: Floats = np.divide(spent, over, out=np.full(DRAWS, np.nan), where=over > 0)
        return found
