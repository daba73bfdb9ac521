"""Entropy and mutual information of discrete things, in nats, with their null and their error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mnemoscope.core.arrays import Ints

# The null is the mean of a few shuffles; it hardly varies among them.
SHUFFLES = 4


@dataclass(frozen=True)
class Mutual:
    """What one thing tells about another.

    value      plug-in estimate: too high by what chance finds in few samples
    null       the same with one side shuffled: about the most that chance can have added
    error      standard error of the plug-in estimate, by the delta method
    adjusted   (value − null) / (mean entropy − null): 0 for chance, 1 for two that say the same
    """

    value: float
    null: float
    error: float
    adjusted: float


def entropy(labels: Ints) -> float:
    """H of the labels, from how often each occurs."""
    return _entropy(np.unique(labels, return_counts=True)[1])


def _entropy(counts: Ints) -> float:
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def mutual(left: Ints, right: Ints, seed: int = 0) -> Mutual:
    """I(left; right) of two labels for the same samples."""
    _, left = np.unique(left, return_inverse=True)
    _, right = np.unique(right, return_inverse=True)
    value, error = _plug_in(left, right)
    rng = np.random.default_rng(seed)
    null = float(np.mean([_plug_in(rng.permutation(left), right)[0] for _ in range(SHUFFLES)]))
    most = (entropy(left) + entropy(right)) / 2
    adjusted = (value - null) / (most - null) if most - null > 1e-12 else 0.0
    return Mutual(value, null, error, adjusted)


def _plug_in(left: Ints, right: Ints) -> tuple[float, float]:
    count = len(left)
    cells, both = np.unique(left * (right.max() + 1) + right, return_counts=True)
    rows, columns = np.bincount(left), np.bincount(right)
    a, b = np.divmod(cells, right.max() + 1)
    gain = np.log(both * count / (rows[a] * columns[b].astype(np.float64)))
    shares = both / count
    value = float((shares * gain).sum())
    variance = float((shares * gain**2).sum()) - value**2
    return value, float(np.sqrt(max(variance, 0.0) / count))
