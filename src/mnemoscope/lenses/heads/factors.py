"""The singular vectors of W_Q W_Kᵀ: what a head looks for, and what it looks at, side by side.

Shapes: H heads, T tokens, D width, E width of a head.

A score is [x, 1] W_Q W_Kᵀ [y, 1]ᵀ = Σ_j s_j (l_j · [x, 1]) (r_j · [y, 1]), where s, l and r come
from the singular value decomposition. The product has D² entries but rank E: it is never formed,
since from the QR decompositions of both weights an E × E matrix is enough.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.weights import HeadWeights, project
from mnemoscope.core.arrays import Floats


@dataclass(frozen=True, eq=False)
class Factors:
    """left (H, D + 1, E), right (H, D + 1, E) with orthonormal columns; values (H, E), falling."""

    left: Tensor
    values: Tensor
    right: Tensor


def factor(weights: HeadWeights) -> Factors:
    """Decompose in float64, biases included."""
    ql, rl = torch.linalg.qr(weights.query.double())
    qr, rr = torch.linalg.qr(weights.key.double())
    u, values, vh = torch.linalg.svd(rl @ rr.transpose(1, 2))
    return Factors(ql @ u, values, qr @ vh.transpose(1, 2))


def scores(factors: Factors, queries: Tensor, keys: Tensor) -> Tensor:
    """Scores between vectors (…, T, D) and (…, S, D) from the factors: (…, H, T, S), unscaled."""
    left, right = project(queries, factors.left), project(keys, factors.right)
    return (left * factors.values[:, None].to(left.dtype)) @ right.transpose(-1, -2)


def paper_shift(
    query: Tensor, key: Tensor, positions: Tensor, draws: int = 4, seed: int = 0
) -> Floats:
    """The shift of one head by R = U_Qᵀ U_K (Yamamoto and Matsuzaki 2023), in tokens, (draws,).

    query, key (D, E) without biases, positions (T, D). With K = Q R and R p = e^{iθ} p, the columns
    Q p and K p differ by a phase θ at every frequency f: a shift of θ / 2πf. The D − E directions
    that W_Q W_Kᵀ does not see have no basis of their own, and R depends on the one that is chosen;
    every draw turns it at random, which leaves all scores as they were.
    """
    generator = torch.Generator().manual_seed(seed)
    found = factor(HeadWeights(_padded(query)[None], _padded(key)[None]))
    signal = positions.double() - positions.double().mean(0)
    shifts = []
    for _ in range(draws):
        left, right = (_completed(side[0, :-1], generator) for side in (found.left, found.right))
        values, vectors = torch.linalg.eig(left.T @ right)
        columns = (signal @ left).to(vectors.dtype) @ vectors
        fade = torch.hann_window(len(signal), dtype=torch.float64)[:, None]
        power = torch.fft.fft(columns * fade, dim=0).abs().square()  # (T, D)
        omega = 2 * torch.pi * torch.fft.fftfreq(len(signal), dtype=torch.float64)
        wave = omega.abs() > 2 * torch.pi / len(signal)
        shift = values.angle() / omega[wave, None]
        shifts.append(weighted_median(shift.numpy().ravel(), power[wave].numpy().ravel()))
    return np.array(shifts)


def _padded(weights: Tensor) -> Tensor:
    return torch.cat((weights.double(), weights.new_zeros(1, weights.shape[1]).double()))


def _completed(columns: Tensor, generator: torch.Generator) -> Tensor:
    """Orthonormal columns (D, E) and a random orthonormal basis of all that is left, (D, D)."""
    width, rank = columns.shape
    rest = torch.randn(width, width - rank, dtype=columns.dtype, generator=generator)
    rest = rest - columns @ (columns.T @ rest)
    return torch.cat((columns, torch.linalg.qr(rest)[0]), 1)


def weighted_median(values: Floats, weights: Floats) -> float:
    """The value with half of the weight on either side."""
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    if not len(values) or not total[-1] > 0:
        return float("nan")
    return float(values[order][np.searchsorted(total, total[-1] / 2)])
