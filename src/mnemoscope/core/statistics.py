"""Uncertainty, computed one way everywhere: bootstraps of means and differences, and seeds.

Shapes: n units that are resampled (episodes, texts, seeds), R resamples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mnemoscope.core.arrays import Floats

RESAMPLES = 2000
LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """An estimate and the ends of its interval; each a number, or an array of one shape."""

    value: Any
    low: Any
    high: Any

    @property
    def spread(self) -> Any:
        """Half of its width."""
        return (self.high - self.low) / 2


def bootstrap_weights(count: int, resamples: int, rng: np.random.Generator) -> Floats:
    """How much every unit counts in every resample, (R, n); rows add up to one."""
    return rng.multinomial(count, np.full(count, 1 / count), resamples) / count


def quantile_interval(value: Any, drawn: Floats, level: float = LEVEL) -> Interval:
    """The middle ``level`` of draws (R, …) around an estimate; draws that are NaN say nothing."""
    low, high = np.nanquantile(drawn, ((1 - level) / 2, (1 + level) / 2), axis=0)
    return Interval(value, low, high)


def bootstrap(
    values: ArrayLike,
    statistic: Callable[[Floats], Floats] = lambda means: means,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """The interval of a statistic of means over units: values (n, …) -> ``statistic`` of (…)."""
    each = np.asarray(values, dtype=np.float64)
    weights = bootstrap_weights(len(each), resamples, np.random.default_rng(seed))
    drawn = np.stack([statistic(row) for row in np.tensordot(weights, each, 1)])
    return quantile_interval(statistic(each.mean(0)), drawn)


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

    def cells(self, name: str) -> dict[str, float]:
        """Return what a figure's table shows of it."""
        return {name: self.mean, "low": self.low, "high": self.high}

    def __str__(self) -> str:
        return f"{self.mean:+.4f} ({self.low:+.4f} to {self.high:+.4f})"


def over_seeds(values: ArrayLike) -> Interval:
    """Mean, lowest and highest of trainings (n, …): a handful of seeds has no quantiles."""
    each = np.asarray(values, dtype=np.float64)
    return Interval(each.mean(0), each.min(0), each.max(0))


def standard_error(values: ArrayLike) -> Floats:
    """Standard error of the mean over units (n, …)."""
    each = np.asarray(values, dtype=np.float64)
    return np.asarray(each.std(0) / len(each) ** 0.5)
