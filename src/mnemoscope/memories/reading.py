"""Continuous attention: a query looks at a signal through a density over [0, 1] (Martins 2022).

Shapes: R rows, H heads, T queries, N basis functions, K bins, E width of a head.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from mnemoscope.memories.basis import Gaussians
from mnemoscope.memories.density import (
    gaussian_below,
    gaussian_expectation,
    parabola_below,
    parabola_expectation,
)

Density = Literal["gaussian", "sparse", "gibbs"]


@dataclass(frozen=True)
class Looks:
    """Where queries look: mean and variance (R, H, T), both in at least float32."""

    mean: Tensor
    variance: Tensor


def locate(queries: Tensor, pointers: Tensor, floor: float) -> Looks:
    """Turn queries (R, H, T, E) into places with two pointers per head (R, H, 2, E).

    A pointer is Σ_j w_j k_j / √E, the keys of all basis functions under the weights w_μ or w_σ:
    the scores q·k_j enter nowhere else, so no key is ever formed.
    """
    scores = queries @ pointers.transpose(2, 3)
    # Two numbers per query decide all the rest: worth full precision also in a bfloat16 model.
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    mean, variance = scores.unbind(-1)
    return Looks(mean.sigmoid(), F.softplus(variance) + floor)


def read(density: Density, looks: Looks, basis: Gaussians, values: Tensor) -> Tensor:
    """The expected value of the signal, Σ_j E[ψ_j] v_j: values (R, H, N, E) -> (R, H, T, E)."""
    expect = gaussian_expectation if density == "gaussian" else parabola_expectation
    return expect(looks.mean, looks.variance, basis).to(values.dtype) @ values


@torch.no_grad()
def masses(density: Density, looks: Looks, bins: int, mask: Tensor | None) -> Tensor:
    """Attention that each of K equal parts of [0, 1] gets from all heads and queries, (R, K).

    mask (R, T) is false where a query is padding.
    """
    edges = torch.linspace(0, 1, bins + 1, device=looks.mean.device, dtype=looks.mean.dtype)
    below = gaussian_below if density == "gaussian" else parabola_below
    passed = below(looks.mean, looks.variance, edges)  # (R, H, T, K + 1)
    if mask is not None:
        passed = passed * mask[:, None, :, None]
    return passed.sum((1, 2)).diff(dim=1)


def gibbs_read(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """The expected value under p(t) ∝ exp(q·K(t) / √E) of a signal that is constant on N parts.

    On equal parts both the density and the signal are constants, so the integral is a softmax
    over the coefficients: keys and values (R, H, N, E) -> (R, H, T, E).
    """
    return F.scaled_dot_product_attention(queries, keys, values)


@torch.no_grad()
def gibbs_masses(queries: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
    """Attention that each of the N parts gets from all heads and queries, (R, N)."""
    scores = (queries @ keys.transpose(2, 3)).float() / math.sqrt(queries.shape[3])
    weights = scores.softmax(-1)
    if mask is not None:
        weights = weights * mask[:, None, :, None]
    return weights.sum((1, 2))
