"""The continuous memory written plainly, in float64: what the fast path has to equal.

Nothing here is fast, and nothing is rearranged.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from mnemoscope.memories.infinite.basis import Basis, Rectangles
from mnemoscope.memories.infinite.long_term import LongTerm
from mnemoscope.memories.infinite.signal import Plan, levels, passed, positions, quantiles


def refit(plan: Plan, old: Tensor | None, tokens: Tensor, count: int, masses: Tensor) -> Tensor:
    """Sample the old signal (N, D) where attention ``masses`` (K,) went, add tokens, fit all anew.

    Ridge regression in its textbook form: coefficients = (F W Fᵀ + λ I)⁻¹ F W Y. The weights W are
    all one where points are counted, else the length of axis that a point stands for.
    """
    share = plan.share(count) if count else 0.0
    where_old, where_new, outside = positions(plan, len(tokens), share)
    apart = torch.full_like(where_old, 1 / plan.samples)
    seen, penalty = quantiles(masses[None], levels(plan))[0], plan.penalty
    if plan.fit == "length" and isinstance(plan.basis, Rectangles):
        # Old and new steps: between two of either the signal does not change.
        edges = torch.linspace(0, 1, plan.basis.count + 1, dtype=torch.float64)
        cuts = share * passed(masses[None], edges)[0]
        cuts = torch.cat((cuts, edges[edges < share])).sort().values
        where_old = (cuts[1:] + cuts[:-1]) / 2 if count else where_old
        apart = cuts.diff() / share if count else apart
        seen = quantiles(masses[None], where_old / share if count else where_old)[0]
        penalty = plan.penalty / plan.basis.count**2
    targets = [tokens.double()]
    if old is not None and count:
        targets.insert(0, plan.basis.evaluate(seen) @ old.double())
    targets.append(torch.zeros(len(outside), tokens.shape[1], dtype=torch.float64))
    design = plan.basis.evaluate(torch.cat((where_old, where_new, outside))).T
    weights = torch.ones(design.shape[1], dtype=torch.float64)
    if plan.fit == "length":
        each = torch.full_like(where_new, (1 - share) / len(where_new))
        weights = torch.cat((share * apart, each))
    penalised = (design * weights) @ design.T + penalty * torch.eye(len(design)).double()
    coefficients: Tensor = torch.linalg.inv(penalised) @ (design * weights) @ torch.cat(targets)
    return coefficients


def published_read(layer: LongTerm, signal: Tensor, queries: Tensor) -> Tensor:
    """Continuous softmax attention as it was published: every key and score formed, σ² clamped.

    signal (N, D), queries (H, T, E) -> output (T, D). The release has its basis' weights w as they
    are, ours are N times as large.
    """
    heads, _, size = queries.shape
    functions = signal.shape[0]
    keys, values = (
        (signal @ weight.T).view(functions, heads, size)
        for weight in (layer.key.weight, layer.value.weight)
    )
    centres = torch.linspace(0, 1, functions, dtype=torch.float64)
    square = (layer.config.spread / functions) ** 2
    found = []
    for head in range(heads):
        scores = queries[head] @ keys[:, head].T / math.sqrt(size)  # (T, N)
        mean_logit, variance_logit = functions * (scores @ layer.weights.T).T
        mean = 1 / (1 + (-mean_logit).exp())
        variance = (1 + variance_logit.exp()).log().clamp(min=layer.config.floor)
        total = variance[:, None] + square
        apart = (mean[:, None] - centres).square()
        expected = (-apart / (2 * total)).exp() / (2 * math.pi * total).sqrt()
        found.append(expected @ values[:, head])
    return torch.cat(found, 1) @ layer.out.weight.T


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
