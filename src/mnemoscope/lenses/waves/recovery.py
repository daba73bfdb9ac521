"""Which directions of a layer hold positions: those a head looks along, or those PCA and ICA find?

Shapes: n tokens, T positions, D width of a site, k directions.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemoscope.core.errors import UserError
from mnemoscope.lenses.positions.means import PositionMeans
from mnemoscope.lenses.statistics.moments import whiten
from mnemoscope.lenses.waves.result import RecoveryResult

# The one method that is told where tokens stand: how much could be had by a linear map.
TOLD = "discriminant, told the positions"


class Recovery:
    """Compare directions: ``observe`` sites laid out by position, then ``result``.

    PCA and FastICA (scikit-learn) get ``samples`` tokens and find ``directions``; of those the
    ``best`` by share of variance that positions explain count: a sine, a cosine, and two more. The
    variance is taken from as many other tokens, or directions thin by chance would seem all wave.
    """

    def __init__(self, *, directions: int = 20, best: int = 4, samples: int = 4000) -> None:
        if not 1 <= best <= directions:
            raise UserError(f"best must lie between 1 and {directions} directions, not {best}")
        self.directions, self.best, self.samples = directions, best, samples
        self.means: dict[str, PositionMeans] = {}
        self._kept: dict[str, list[Tensor]] = {}

    def observe(self, seen: Mapping[str, Tensor]) -> None:
        """Take in (B, T, D) by site; the first texts are the sample, whole, for PCA and ICA."""
        for site, values in seen.items():
            means = self.means.setdefault(site, PositionMeans())
            kept = self._kept.setdefault(site, [])
            have = sum(one.shape[0] * one.shape[1] for one in kept)
            if have < 2 * self.samples:
                need = -(-(2 * self.samples - have) // values.shape[1])
                kept.append(values[:need].cpu().float())
            means.add(values)

    def result(self, heads: Mapping[str, Mapping[str, Tensor]]) -> RecoveryResult:
        """``heads``: by name of the method, by site, directions (D, k) that heads look along."""
        if not self.means:
            raise UserError("nothing was observed yet: call observe(seen) for every batch first")
        names = ["PCA", "FastICA", *heads, TOLD]
        value: dict[str, list[float]] = {name: [] for name in names}
        null, unsettled = [], []
        generator = torch.Generator().manual_seed(0)
        for site, means in self.means.items():
            kept = torch.cat(self._kept[site])  # (texts, T, D)
            fitted, sample = kept[0::2], kept[1::2]
            tokens = fitted.flatten(0, 1).numpy()
            halves = means.halves()
            pca, ica, settled = _directions(tokens, self.directions)
            if not settled:
                unsettled.append(site)
            found = {"PCA": pca, "FastICA": ica}
            found |= {name: one[site].double() for name, one in heads.items() if site in one}
            for name in names[:-1]:
                value[name].append(
                    self._best(halves, sample, found[name]) if name in found else float("nan")
                )
            value[TOLD].append(self._best(halves, sample, _discriminant(means, fitted, self.best)))
            order = torch.stack([torch.randperm(kept.shape[1], generator=generator) for _ in kept])
            mixed = torch.take_along_dim(kept, order[..., None], 1)
            split = torch.stack([mixed[0::2].double().mean(0), mixed[1::2].double().mean(0)])
            null.append(self._best(split, sample, pca))
        return RecoveryResult(
            tuple(self.means),
            {name: np.array(values) for name, values in value.items()},
            float(np.mean(null)),
            self.directions,
            self.best,
            tuple(unsettled),
        )

    def _best(self, halves: Tensor, sample: Tensor, found: Tensor) -> float:
        """Share of variance along directions (D, k) that is common to the halves' means."""
        first, second = (half - half.mean(0) for half in halves)
        along = ((first @ found) * (second @ found)).mean(0)
        flat = sample.flatten(0, 1).double()
        total = ((flat - flat.mean(0)) @ found).square().mean(0).clamp(min=1e-300)
        return float((along / total).sort(descending=True).values[: self.best].mean())


def _directions(tokens: NDArray[np.float32], count: int) -> tuple[Tensor, Tensor, bool]:
    """Directions (D, k) of PCA and of FastICA, and whether the latter came to an end."""
    from sklearn.decomposition import PCA, FastICA
    from sklearn.exceptions import ConvergenceWarning

    count = min(count, *tokens.shape)
    pca = PCA(count, random_state=0).fit(tokens)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", ConvergenceWarning)
        ica = FastICA(count, whiten="unit-variance", max_iter=300, tol=1e-3, random_state=0)
        ica.fit(tokens)
    settled = not any(issubclass(one.category, ConvergenceWarning) for one in said)
    parts = [torch.from_numpy(np.array(one.components_.T, np.float64)) for one in (pca, ica)]
    return parts[0], parts[1], settled


def _discriminant(means: PositionMeans, sample: Tensor, count: int) -> Tensor:
    """Directions with the largest share, by the generalised eigenvalue problem, regularised."""
    flat = sample.flatten(0, 1).double()
    flat = flat - flat.mean(0)
    inner = flat.T @ flat / len(flat)
    # Directions too thin to be estimated would look like waves by chance: none is thinner than a
    # hundredth of the mean.
    floor = 0.01 * inner.trace() / len(inner) * torch.eye(len(inner), dtype=inner.dtype)
    white = whiten(inner + floor).to_white
    first, second = (half - half.mean(0) for half in means.halves())
    both = white @ (first.T @ second + second.T @ first) @ white.T
    best: Tensor = white.T @ torch.linalg.eigh(both).eigenvectors[:, -count:]
    return best
