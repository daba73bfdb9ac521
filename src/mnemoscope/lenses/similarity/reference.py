"""PWCCA as two public libraries compute it, to compare with figures that were published with them.

Neither is the definition (see `cca`): use them for nothing else. Both need all samples at once.

Shapes: n samples, D and E widths.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from mnemoscope.core.arrays import Floats
from mnemoscope.core.errors import UserError


def google_svcca(x: ArrayLike, y: ArrayLike) -> float:
    """The distance by google/svcca of x (n, D) and y (n, E), D at most E.

    Its directions are singular vectors of the white cross-moment applied to x as it is, with the
    means of the neurons put back; weights are projections of x, means included.
    """
    a, b = _checked(x, y)
    mean = a.mean(0)
    u, rho, _ = np.linalg.svd(_root(a) @ _cross(a, b) @ _root(b), full_matrices=False)
    directions = (a - mean) @ u + mean
    weights = np.abs(np.linalg.qr(directions)[0].T @ a).sum(1)
    return float(1 - weights @ rho.clip(max=1) / weights.sum())


def anatome(x: ArrayLike, y: ArrayLike) -> float:
    """The distance by anatome of x (n, D) and y (n, E), D at most E.

    Its coefficients are made orthonormal, and a direction weighs what it sums to over all samples.
    """
    a, b = _checked(x, y)
    u, rho, _ = np.linalg.svd(_root(a) @ _cross(a, b) @ _root(b), full_matrices=False)
    coefficients = np.linalg.qr(_root(a) @ u)[0]
    weights = np.abs(a @ coefficients).sum(0)
    return float(1 - weights @ rho.clip(max=1) / weights.sum())


def _checked(x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    a, b = (np.asarray(one, dtype=np.float64) for one in (x, y))
    if a.ndim != 2 or b.ndim != 2 or len(a) != len(b) or a.shape[1] > b.shape[1]:
        raise UserError(f"needs (n, D) and (n, E) with D ≤ E, got {a.shape} and {b.shape}")
    if len(a) <= b.shape[1]:
        raise UserError(f"{len(a)} samples are too few for {b.shape[1]} dimensions")
    return a, b


def _cross(a: Floats, b: Floats) -> Floats:
    found: Floats = (a - a.mean(0)).T @ (b - b.mean(0))
    return found


def _root(a: Floats) -> Floats:
    """The symmetric inverse square root of the inner moment."""
    values, vectors = np.linalg.eigh(_cross(a, a))
    if values[0] <= 1e-12 * values[-1]:
        raise UserError("a direction is constant; these implementations would fail or return NaN")
    found: Floats = (vectors / np.sqrt(values)) @ vectors.T
    return found
