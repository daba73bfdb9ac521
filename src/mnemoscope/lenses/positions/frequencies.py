"""Frequencies of windows of positions, their peaks and bands: what `fourier` computes, named.

Shapes: T positions, W windows, F frequencies.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.core.errors import UserError

LOWEST = 2
# Octaves of frequency, in tokens per cycle: from 2, the shortest period there is.
OCTAVES = (2.0, 4.0, 8.0, 16.0, 32.0)


def window_size(positions: int, window: int, frequencies: int | None) -> int:
    """How many positions a window has; ``frequencies`` asks for at least so many of them.

    An even number: the shortest period then has a frequency of its own, where it shows as it is.
    """
    size = window if frequencies is None else max(window, 2 * (frequencies + LOWEST - 1))
    if frequencies is None:
        size = min(size, positions)
    size -= size % 2
    if size < 2 * LOWEST:
        raise UserError(f"a window needs at least {2 * LOWEST} positions, not {size}")
    if size > positions:
        raise UserError(
            f"{frequencies} frequencies need windows of {size} positions, but texts have "
            f"{positions}: ask for at most {positions // 2 - LOWEST + 1}, or read longer texts"
        )
    return size


def frequencies(size: int, finer: int = 1) -> Floats:
    """The frequencies of windows of ``size`` positions, in cycles per token, (F,)."""
    cycles = np.arange(LOWEST * finer, size * finer // 2 + 1)
    return cycles.astype(np.float64) / (size * finer)


def centres(positions: int, size: int) -> Floats:
    """Where the windows stand, (W,), counted from the first position."""
    first = np.arange(0, positions - size + 1, max(1, size // 2)).astype(np.float64)
    return first + (size - 1) / 2


def peak(power: Floats, cycles: Floats) -> tuple[float, float]:
    """Of power (F,): the strongest frequency, and how many times the mean it is.

    One is flat, F is a single line. Power that products of halves make negative counts as none.
    """
    power = np.maximum(power, 0)
    if not power.sum():
        return float("nan"), 1.0
    return float(cycles[power.argmax()]), float(power.max() / power.mean())


def band_shares(power: Floats, cycles: Floats) -> Floats:
    """Shares of the power by period, from the shortest up, the last one open: (bands,)."""
    power = np.maximum(power, 0)
    band = np.searchsorted(OCTAVES, 1 / cycles, side="right") - 1
    sums = np.bincount(np.maximum(band, 0), power, minlength=len(OCTAVES))
    return sums / max(float(power.sum()), 1e-300)


def band_names() -> list[str]:
    """What the bands are called: periods in tokens."""
    return [*(f"{a:g}–{b:g}" for a, b in pairwise(OCTAVES)), f"over {OCTAVES[-1]:g}"]
