"""The continuous memory written plainly, in float64: what the fast path has to equal.

Nothing here is fast, and nothing is rearranged.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from mnemoscope.memories.infinite.basis import Basis
from mnemoscope.memories.infinite.signal import Plan, positions


def refit(plan: Plan, old: Tensor | None, tokens: Tensor, count: int, times: Tensor) -> Tensor:
    """Sample the old signal (N, D) at ``times``, append tokens (L, D) and zeros, fit all anew.

    Ridge regression in its textbook form: coefficients = (F Fᵀ + λ I)⁻¹ F Y.
    """
    share = plan.share(count) if count else 0.0
    where_old, where_new, outside = positions(plan, len(tokens), share)
    targets = [tokens.double()]
    if old is not None and count:
        targets.insert(0, plan.basis.evaluate(times.double()) @ old.double())
    targets.append(torch.zeros(len(outside), tokens.shape[1], dtype=torch.float64))
    design = plan.basis.evaluate(torch.cat((where_old, where_new, outside))).T
    penalised = design @ design.T + plan.penalty * torch.eye(len(design), dtype=torch.float64)
    coefficients: Tensor = torch.linalg.inv(penalised) @ design @ torch.cat(targets)
    return coefficients


def by_quadrature(
    density: Callable[[Tensor], Tensor], basis: Basis, low: float, high: float, points: int
) -> Tensor:
    """∫ p(t) ψ_j(t) dt between two points by the midpoint rule, (N,)."""
    steps = torch.arange(points, dtype=torch.float64)
    times = low + (high - low) * (steps + 0.5) / points
    weights = density(times) * (high - low) / points
    return weights @ basis.evaluate(times)


def normal(mean: float, variance: float) -> Callable[[Tensor], Tensor]:
    """The density of N(mean, variance)."""

    def density(times: Tensor) -> Tensor:
        height = 1 / math.sqrt(2 * math.pi * variance)
        return height * (-(times - mean).square() / (2 * variance)).exp()

    return density


def parabola(mean: float, variance: float) -> Callable[[Tensor], Tensor]:
    """The truncated parabola [½ (3 / 2σ)^⅔ − (t − mean)² / 2σ²]₊ with σ² = variance."""

    def density(times: Tensor) -> Tensor:
        top = 0.5 * (3 / (2 * math.sqrt(variance))) ** (2 / 3)
        height: Tensor = top - (times - mean).square() / (2 * variance)
        return height.clamp(min=0)

    return density


def sticky_share(contraction: float, attention: float) -> float:
    """The share of a sticky signal that a region tends to, τ w / (1 − τ (1 − w)).

    ``attention`` w goes to the region at every read, the rest is spread evenly over the signal, so
    that the region's share s becomes τ (w + (1 − w) s): this is where that stands still.
    """
    return contraction * attention / (1 - contraction * (1 - attention))
