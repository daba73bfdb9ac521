"""Continuous attention: densities over [0, 1] and what they expect of a basis, in closed form.

Shapes: R rows, H heads, T queries, K bins, N basis functions; mean and variance (...),
edges (K + 1,), centres (N,) and squares (N,) or (1,), the squared widths of the basis.

The Gaussian and the truncated parabola are the softmax and the sparsemax of a quadratic score
over a continuous domain (Martins 2020, "Sparse and continuous attention mechanisms").
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor

Density = Literal["gaussian", "sparse", "gibbs"]

# Logarithm of what counts as nothing: 1e-20. Denormal numbers would make products 8 times slower.
NOTHING = -46.0


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
    mean: Tensor, variance: Tensor, centres: Tensor, squares: Tensor
) -> Tensor:
    """E[ψ_j(t)] for t ~ N(mean, variance) is N(mean; c_j, s_j² + variance): (...) -> (..., N)."""
    if not torch.is_grad_enabled():
        return normal_density(mean, variance[..., None] + squares, centres)
    expected: Tensor = _Expectation.apply(mean, variance, centres, squares)  # type: ignore[no-untyped-call]
    return expected


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
    mean: Tensor, variance: Tensor, centres: Tensor, squares: Tensor
) -> Tensor:
    """E[ψ_j(t)] under p(t) = [a² − (t − mean)²]₊ / (2 variance): (...) -> (..., N).

    With t = c + s x the density is a quadratic in x, whose moments under the normal density
    between two points are closed.
    """
    width = squares.sqrt()
    reach = parabola_reach(variance)[..., None]
    apart = centres - mean[..., None]
    low, high = (-reach - apart) / width, (reach - apart) / width
    at_low, at_high = _normal(low), _normal(high)
    zeroth = 0.5 * (torch.erf(high / math.sqrt(2)) - torch.erf(low / math.sqrt(2)))
    first = at_low - at_high
    second = zeroth + low * at_low - high * at_high
    inner = (reach.square() - apart.square()) * zeroth - 2 * apart * width * first
    return (inner - squares * second) / (2 * variance[..., None])


def parabola_below(mean: Tensor, variance: Tensor, edges: Tensor) -> Tensor:
    """P(t ≤ edge) under the truncated parabola: (...) -> (..., K + 1)."""
    at = ((edges - mean[..., None]) / parabola_reach(variance)[..., None]).clamp(-1, 1)
    return 0.5 + 0.25 * at * (3 - at.square())


def _normal(x: Tensor) -> Tensor:
    return (-0.5 * x.square()).exp() / math.sqrt(2 * math.pi)


def divergence(mean: Tensor, variance: Tensor, width: float, centre: float | None = None) -> Tensor:
    """KL(N(mean, variance) ‖ N(centre, width²)), averaged; without a centre, of the width alone.

    It is zero at variance = width², and grows away from it on both sides.
    """
    ratio = variance / width**2
    distance = ratio - ratio.log() - 1
    if centre is not None:
        distance = distance + (mean - centre).square() / width**2
    return 0.5 * distance.mean()


@torch.no_grad()
def masses(
    density: Density, mean: Tensor, variance: Tensor, bins: int, mask: Tensor | None
) -> Tensor:
    """Attention mass that K equal parts of [0, 1] get from all heads and queries, (R, K).

    mean and variance (R, H, T); mask (R, T) is false where a query is padding.
    """
    edges = torch.linspace(0, 1, bins + 1, device=mean.device, dtype=mean.dtype)
    below = gaussian_below if density == "gaussian" else parabola_below
    passed = below(mean, variance, edges)  # (R, H, T, K + 1)
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
