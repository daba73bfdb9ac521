"""Continuous attention: densities over [0, 1] and what they expect of a basis, in closed form.

Shapes: R rows, H heads, T queries, K bins, N basis functions; mean and variance (...),
edges (K + 1,), centres (N,) and squares (N,) or (1,), the squared widths of the basis.

The Gaussian and the truncated parabola are the softmax and the sparsemax of a quadratic score
over a continuous domain (Martins 2020, "Sparse and continuous attention mechanisms").

Published, they live on the whole line, and so see what the basis does outside [0, 1]: zeros, if
zeros were regressed to there, else whatever the last functions need at their other side. On the
domain "unit" a density is cut off at 0 and 1 and has all of its mass between.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Density = Literal["gaussian", "sparse", "gibbs"]
Domain = Literal["unit", "line"]

# Logarithm of what counts as nothing: 1e-20. Denormal numbers would make products 8 times slower.
NOTHING = -46.0
# Widths from its centre within which a function lies, and from an end of [0, 1] from which on no
# density cuts off a part of it that counts.
WITHIN = 7.0


def normal_density(mean: Tensor, variance: Tensor, centres: Tensor) -> Tensor:
    """N(mean; c_j, variance) for all centres: mean (...) -> (..., N). Computes no gradient.

    variance (..., N), or (..., 1) if it is the same for all.
    """
    scale = (2 * variance).rsqrt()
    height = (scale / math.sqrt(math.pi)).log()
    # In place: the logarithm of the density, then the density.
    density = (centres - mean[..., None]).mul_(scale).square_()
    torch.sub(height, density, out=density)
    return density.clamp_(min=NOTHING).exp_()


def gaussian_expectation(
    mean: Tensor, variance: Tensor, centres: Tensor, squares: Tensor, domain: Domain = "line"
) -> Tensor:
    """E[ψ_j(t)] for t ~ N(mean, variance) is N(mean; c_j, s_j² + variance): (...) -> (..., N).

    On the domain "unit" given that t, like its mean, lies in [0, 1]. The product of density and
    function is a normal density of mean m and variance σ² s² / (σ² + s²), times that expectation.
    Centres are in ascending order: only those near an end have a part of the product beyond it.
    """
    grad = torch.is_grad_enabled()
    if grad:
        expected: Tensor = _Expectation.apply(mean, variance, centres, squares)  # type: ignore[no-untyped-call]
    else:
        expected = normal_density(mean, variance[..., None] + squares, centres)
    if domain == "line":
        return expected
    count = len(centres)
    near = min(count, int((centres < WITHIN * squares.max().sqrt()).sum()))
    spread, width = variance[..., None], squares.expand(count)
    scale = (2 * spread).rsqrt()
    at, rest = mean[..., None], 1 - mean[..., None]
    inside = 0.5 * (torch.erf(at * scale) + torch.erf(rest * scale))  # none is lost: both are > 0
    ends = ((at, centres[:near], width[:near]), (rest, 1 - centres[-near:], width[-near:]))
    beyond = []  # share of the product that lies outside, at either end
    for apart, centre, square in ends:
        total = spread + square
        middle = (centre * spread + apart * square) / total
        beyond.append(0.5 * torch.erfc(middle * (total / (2 * square * spread)).sqrt()))
    if grad:
        cut = F.pad(beyond[0], (0, count - near)) + F.pad(beyond[1], (count - near, 0))
        return expected * (1 - cut) / inside
    # In place, where nobody needs what was there; both before either, since ends may overlap.
    left, right = expected[..., :near] * beyond[0], expected[..., -near:] * beyond[1]
    expected[..., :near] -= left
    expected[..., -near:] -= right
    return expected.div_(inside)


class _Expectation(torch.autograd.Function):
    """One array of (..., N) written in place forward and one backward; autograd would keep six."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, variance: Tensor, centres: Tensor, squares: Tensor) -> Any:
        total = variance[..., None] + squares
        expected = normal_density(mean, total, centres)
        ctx.save_for_backward(mean, total, centres, expected)
        return expected

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        mean, total, centres, expected = ctx.saved_tensors
        # ∂r/∂μ = r (c − μ)/v and ∂r/∂σ² = r ((c − μ)²/v² − 1/v)/2, summed in place over all c.
        # Powers of c alone would take one product, but of a narrow density they leave only noise.
        apart, inverse = centres - mean[..., None], total.reciprocal()
        weights = (grads[0] * expected).mul_(inverse)
        zeroth = weights.sum(-1)
        first = weights.mul_(apart).sum(-1)
        second = weights.mul_(apart).mul_(inverse).sum(-1)
        return first, 0.5 * (second - zeroth), None, None


def gaussian_below(mean: Tensor, variance: Tensor, edges: Tensor) -> Tensor:
    """P(t ≤ edge): (...) -> (..., K + 1)."""
    scale = (2 * variance).rsqrt()
    return 0.5 * torch.erf((edges - mean[..., None]) * scale[..., None]) + 0.5


def parabola_reach(variance: Tensor) -> Tensor:
    """Half the width of the truncated parabola's support, a = (3 σ² / 2)^⅓."""
    return (1.5 * variance) ** (1 / 3)


def parabola_expectation(
    mean: Tensor, variance: Tensor, centres: Tensor, squares: Tensor, domain: Domain = "line"
) -> Tensor:
    """E[ψ_j(t)] under p(t) = [a² − (t − mean)²]₊ / (2 variance): (...) -> (..., N).

    With t = c + s x the density is a quadratic in x, whose moments under the normal density
    between two points are closed. On the domain "unit" given that t lies in [0, 1].
    """
    width = squares.sqrt()
    reach = parabola_reach(variance)
    first_at, last_at = -reach, reach
    if domain == "unit":
        first_at, last_at = torch.maximum(-reach, -mean), torch.minimum(reach, 1 - mean)
    apart = centres - mean[..., None]
    low, high = (first_at[..., None] - apart) / width, (last_at[..., None] - apart) / width
    at_low, at_high = _normal(low), _normal(high)
    zeroth = 0.5 * (torch.erf(high / math.sqrt(2)) - torch.erf(low / math.sqrt(2)))
    first = at_low - at_high
    second = zeroth + low * at_low - high * at_high
    inner = (reach[..., None].square() - apart.square()) * zeroth - 2 * apart * width * first
    expected = (inner - squares * second) / (2 * variance[..., None])
    if domain == "line":
        return expected
    ends = torch.tensor([0.0, 1.0], dtype=mean.dtype, device=mean.device)
    return expected / parabola_below(mean, variance, ends).diff(dim=-1)


def parabola_below(mean: Tensor, variance: Tensor, edges: Tensor) -> Tensor:
    """P(t ≤ edge) under the truncated parabola: (...) -> (..., K + 1)."""
    at = ((edges - mean[..., None]) / parabola_reach(variance)[..., None]).clamp(-1, 1)
    return 0.5 + 0.25 * at * (3 - at.square())


def parabola_variance(variance: Tensor) -> Tensor:
    """The variance that the truncated parabola of parameter σ² has, a² / 5."""
    return parabola_reach(variance).square() / 5


def variance_of(density: Density, variance: Tensor) -> Tensor:
    """The variance that a density of parameter σ² has."""
    return variance if density == "gaussian" else parabola_variance(variance)


def _normal(x: Tensor) -> Tensor:
    return (-0.5 * x.square()).exp() / math.sqrt(2 * math.pi)


def divergence(
    density: Density,
    mean: Tensor,
    variance: Tensor,
    width: float,
    centre: float | None = None,
    counted: Tensor | None = None,
) -> Tensor:
    """KL(N(mean, variance) ‖ N(centre, width²)), averaged; without a centre, of the width alone.

    It is zero where the standard deviation is ``width``, and grows away from it on both sides. Of
    two parabolas KL is infinite unless one lies within the other, so it is taken of the normal
    densities that have their means and variances. mean and variance (R, H, T) are averaged over
    all heads and the queries that ``counted`` (R, T) says; over none it is zero.
    """
    ratio = variance_of(density, variance) / width**2
    distance = ratio - ratio.log() - 1
    if centre is not None:
        distance = distance + (mean - centre).square() / width**2
    if counted is None:
        return 0.5 * distance.mean()
    total = (distance * counted[:, None]).sum()
    return 0.5 * total / (counted.sum() * mean.shape[1]).clamp(min=1)


@torch.no_grad()
def masses(
    density: Density,
    mean: Tensor,
    variance: Tensor,
    bins: int,
    mask: Tensor | None,
    domain: Domain = "line",
) -> Tensor:
    """Attention mass that K equal parts of [0, 1] get from all heads and queries, (R, K).

    mean and variance (R, H, T); mask (R, T) is false where a query is padding. On the domain
    "unit" every query has a mass of one to give.
    """
    edges = torch.linspace(0, 1, bins + 1, device=mean.device, dtype=mean.dtype)
    below = gaussian_below if density == "gaussian" else parabola_below
    passed = below(mean, variance, edges)  # (R, H, T, K + 1)
    if domain == "unit":
        passed = passed / (passed[..., -1:] - passed[..., :1])
    if mask is not None:
        passed = passed * mask[:, None, :, None]
    return passed.sum((1, 2)).diff(dim=1)


@torch.no_grad()
def gibbs_masses(queries: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
    """Attention mass that each of the N parts gets from all heads and queries, (R, N)."""
    scores = (queries @ keys.transpose(2, 3)).float() / math.sqrt(queries.shape[3])
    weights = scores.softmax(-1)
    if mask is not None:
        weights = weights * mask[:, None, :, None]
    return weights.sum((1, 2))
