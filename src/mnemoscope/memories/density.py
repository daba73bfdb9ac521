"""Where a query looks: densities over [0, 1] and what they expect of a basis, in closed form.

Shapes: mean and variance (...), edges (D + 1,), N basis functions.

The Gaussian and the truncated parabola are the softmax and the sparsemax of a quadratic score
over a continuous domain (Martins 2020, "Sparse and continuous attention mechanisms").
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from mnemoscope.memories.basis import Gaussians, normal_density


def gaussian_expectation(mean: Tensor, variance: Tensor, basis: Gaussians) -> Tensor:
    """E[ψ_j(t)] for t ~ N(mean, variance) is N(mean; c_j, s_j² + variance): (...) -> (..., N)."""
    centres, squares = basis.constants(mean.dtype, mean.device)
    if not torch.is_grad_enabled():
        return normal_density(mean, variance[..., None] + squares, centres)
    found: Tensor = _Expectation.apply(mean, variance, centres, squares)  # type: ignore[no-untyped-call]
    return found


class _Expectation(torch.autograd.Function):
    """One array of (..., N) written in place forward and one backward; autograd would keep six."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, variance: Tensor, centres: Tensor, squares: Tensor) -> Any:
        total = variance[..., None] + squares
        found = normal_density(mean, total, centres)
        ctx.save_for_backward(mean, total, centres, found)
        return found

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        mean, total, centres, found = ctx.saved_tensors
        # ∂r/∂μ = r (c − μ)/v and ∂r/∂σ² = r ((c − μ)²/v² − 1/v)/2, summed in place over all c.
        # Powers of c alone would take one product, but of a narrow look they leave only noise.
        apart, inverse = centres - mean[..., None], total.reciprocal()
        weights = (grads[0] * found).mul_(inverse)
        zeroth = weights.sum(-1)
        first = weights.mul_(apart).sum(-1)
        second = weights.mul_(apart).mul_(inverse).sum(-1)
        return first, 0.5 * (second - zeroth), None, None


def gaussian_below(mean: Tensor, variance: Tensor, edges: Tensor) -> Tensor:
    """P(t ≤ edge): (...) -> (..., D + 1)."""
    scale = (2 * variance).rsqrt()
    return 0.5 * torch.erf((edges - mean[..., None]) * scale[..., None]) + 0.5


def parabola_reach(variance: Tensor) -> Tensor:
    """Half the width of the truncated parabola's support, a = (3 σ² / 2)^⅓."""
    return (1.5 * variance) ** (1 / 3)


def parabola_expectation(mean: Tensor, variance: Tensor, basis: Gaussians) -> Tensor:
    """E[ψ_j(t)] under p(t) = [a² − (t − mean)²]₊ / (2 variance): (...) -> (..., N).

    With t = c + s x the density is a quadratic in x, whose moments under the normal density
    between two points are closed.
    """
    centres, squares = basis.constants(mean.dtype, mean.device)
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
    """P(t ≤ edge) under the truncated parabola: (...) -> (..., D + 1)."""
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
