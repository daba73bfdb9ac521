"""The one way in which vectors become cluster numbers here.

How k-means is run moves mutual information by up to half a nat, so there is one recipe and no
choice: every dimension scaled to unit variance (one huge dimension would decide all else), starts
drawn as k-means++ does, the best of a few draws each, ten rounds of Lloyd on at most 30 000
vectors, then all are assigned. That is what scikit-learn's `KMeans` does, in a third of the time; a
test holds what clusters leave against it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemoscope.core.errors import UserError

LEARN_FROM, ROUNDS, CHUNK = 30_000, 10, 4096


@dataclass(frozen=True, eq=False)
class Clusters:
    """The cluster of every vector (n,), and the share of the variance that clusters leave."""

    ids: NDArray[np.int64]
    inertia: float


def cluster(values: Tensor, clusters: int, seed: int) -> Clusters:
    """Put vectors (n, D) into at most ``clusters`` groups."""
    count = len(values)
    if not 1 < clusters <= count:
        raise UserError(f"{count} vectors cannot be put into {clusters} clusters")
    values = standardise(values)
    generator = torch.Generator().manual_seed(seed)
    learnt = values[torch.randperm(count, generator=generator)[:LEARN_FROM]]
    centres = _starts(learnt, clusters, generator)
    for _ in range(ROUNDS):
        ids, _ = _assign(learnt, centres)
        sums = torch.zeros_like(centres).index_add_(0, ids, learnt)
        sizes = torch.bincount(ids, minlength=len(centres))
        # A cluster that lost all its vectors stays where it is.
        centres = torch.where(sizes[:, None] > 0, sums / sizes[:, None].clamp(min=1), centres)
    ids, left = _assign(values, centres)
    return Clusters(ids.numpy(), left / float(values.square().sum()))


def standardise(values: Tensor) -> Tensor:
    """Vectors (n, D), every dimension centred and of unit variance; constant ones left out."""
    values = values.float()
    values = values - values.mean(0)
    spread = values.std(0)
    varies = spread > 1e-6 * spread.max()
    if not bool(varies.any()):
        raise UserError("all vectors are the same: no two can be told apart")
    return values[:, varies] / spread[varies]


def _starts(values: Tensor, clusters: int, generator: torch.Generator) -> Tensor:
    """Each start is drawn in proportion to its squared distance from those before (Arthur 2007).

    Of 2 + ln k such draws the one that leaves least is taken. With one draw each, tokens that are
    many clusters of their own, as embeddings are, go without: an eighth more variance is left.
    """
    squares = values.square().sum(1)
    trials = 2 + int(math.log(clusters))
    chosen = [int(torch.randint(len(values), (1,), generator=generator))]
    nearest = _apart(values, squares, chosen)[:, 0]
    while len(chosen) < clusters:
        if float(nearest.max()) <= 1e-10 * float(squares.mean()):
            break  # fewer different vectors than clusters
        total = nearest.double().cumsum(0)
        drawn = torch.rand(trials, generator=generator, dtype=torch.float64) * total[-1]
        draws = torch.searchsorted(total, drawn).clamp(max=len(values) - 1).tolist()
        left = torch.minimum(nearest[:, None], _apart(values, squares, draws))
        best = int(left.sum(0).argmin())
        chosen.append(draws[best])
        nearest = left[:, best]
    return values[chosen]


def _apart(values: Tensor, squares: Tensor, chosen: list[int]) -> Tensor:
    """Squared distances of all vectors to a few of them, (n, few)."""
    few = values[chosen]
    apart = torch.addmm(squares[:, None] + squares[chosen], values, few.T, alpha=-2).clamp(min=0)
    apart[chosen, range(len(chosen))] = 0  # of a vector to itself, whatever rounding says
    return apart


def _assign(values: Tensor, centres: Tensor) -> tuple[Tensor, float]:
    """The nearest centre of every vector, and the sum of squared distances to them."""
    sizes = centres.square().sum(1)
    ids, left = [], 0.0
    for part in torch.split(values, CHUNK):
        nearest, which = torch.addmm(sizes, part, centres.T, alpha=-2).min(1)
        ids.append(which)
        left += float((nearest + part.square().sum(1)).clamp(min=0).double().sum())
    return torch.cat(ids), left
