"""How alike two sites are, from second moments alone: CCA and its kin, CKA, Procrustes.

Shapes: n samples, D and E widths, r and s ranks, k = min(r, s).

All values are distances: 0 for a site and itself (the debiased CKA up to its noise).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mnemoscope.lenses.statistics.moments import Moments, Pair, White, whiten

MEASURES = ("pwcca", "cca", "svcca", "cka", "procrustes")
SVCCA_VARIANCE = 0.99


def canonical(white: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Correlations (k,), and in white space the directions of both sides, (r, k) and (s, k)."""
    left, correlations, right = torch.linalg.svd(white, full_matrices=False)
    return correlations.clamp(max=1.0), left, right.T


def projection_weighted(correlations: Tensor, directions: Tensor, white: White) -> float:
    """1 − Σ αᵢ ρᵢ / Σ αᵢ, with αᵢ = Σⱼ |⟨hᵢ, xⱼ⟩| (Morcos 2018, eq. 3 and the lines after it).

    hᵢ is the i-th canonical variable, of unit norm; xⱼ runs over the centred neurons of one side.
    With h = X Λ^(−1/2) u the product is uᵀ Λ^(1/2) Vᵀ: no sample is needed.
    """
    weights = (directions.T @ white.to_scaled).abs().sum(1)
    return float(1 - (weights @ correlations) / weights.sum())


def distances(moments: Moments, pair: Pair, left: White, right: White) -> dict[str, float]:
    """All measures of one pair; PWCCA with the weights of either side, and their mean."""
    cross = moments.cross[pair]
    white = left.to_white @ cross @ right.to_white.T
    return _measures(white, cross, left, right) | {"cka": 1 - debiased_cka(moments, pair)}


def null_distances(count: int, left: White, right: White, seed: int) -> dict[str, float]:
    """The same if the ``count`` samples were paired at random, drawn from its distribution.

    White sites whose rows are paired at random are two random subspaces of the n − 1 dimensions
    that centring leaves; the product of their bases is G (GᵀG + W)^(−1/2), with G normal and W
    Wishart with n − 1 − r degrees of freedom, drawn by Bartlett's decomposition. Nothing has to be
    read again. The debiased CKA of such a pair is nothing by construction.
    """
    generator = torch.Generator().manual_seed(seed)
    rows, columns = left.rank, right.rank
    options: Any = {"generator": generator, "dtype": torch.float64}
    chance = torch.randn(rows, columns, **options)
    free = max(count - 1 - rows, 0)
    if free >= columns:
        lower = torch.randn(columns, columns, **options).tril(-1)
        half = torch.arange(free, free - columns, -1, dtype=torch.float64) / 2
        # A chi-squared number is twice a gamma number of half the degrees.
        lower += (2 * torch._standard_gamma(half, generator=generator)).sqrt().diag()
    else:
        lower = torch.randn(columns, free, **options)
    whole = whiten(chance.T @ chance + lower @ lower.T)
    white = chance @ (whole.to_white.T * whole.values.sqrt()) @ whole.to_white
    cross = left.to_scaled.T @ white @ right.to_scaled
    return _measures(white, cross, left, right) | {"cka": 1.0}


def _measures(white: Tensor, cross: Tensor, left: White, right: White) -> dict[str, float]:
    """All but CKA, from the cross-moment of white sites (r, s) and that of the sites (D, E)."""
    correlations, directions, others = canonical(white)
    ours = projection_weighted(correlations, directions, left)
    theirs = projection_weighted(correlations, others, right)
    few = white[: _leading(left.values), : _leading(right.values)]
    norm = float(left.values.sum() * right.values.sum()) ** 0.5
    return {
        "pwcca": (ours + theirs) / 2,
        "pwcca_left": ours,
        "pwcca_right": theirs,
        "cca": float(1 - correlations.mean()),
        "svcca": float(1 - torch.linalg.svdvals(few).clamp(max=1.0).mean()),
        "procrustes": 1 - float(torch.linalg.svdvals(cross).sum()) / norm,
    }


def _leading(values: Tensor) -> int:
    """How many directions hold 99 % of the variance."""
    share = values.cumsum(0) / values.sum()
    return int((share < SVCCA_VARIANCE).sum()) + 1


def debiased_cka(moments: Moments, pair: Pair) -> float:
    """Linear CKA with the unbiased HSIC of Song 2012, eq. 5, from moments of centred data.

    With centred x every row of the Gram matrix sums to zero, which leaves three terms.
    """
    n = moments.count
    trace = {name: float(moments.inner(name).trace()) for name in pair}

    def hsic(one: Pair) -> float:
        inner = float(moments.cross[one].square().sum())
        both = trace[one[0]] * trace[one[1]] / ((n - 1) * (n - 2))
        return inner - moments.fourth(one) * n / (n - 2) + both

    left, right = pair
    within = hsic((left, left)) * hsic((right, right))
    return hsic(pair) / within**0.5 if within > 0 else float("nan")
