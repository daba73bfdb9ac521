"""What a continuous memory can still tell of the past, by algebra alone.

Shapes: N basis functions, L tokens written at once.

A write is linear, so what is left of a chunk written k writes ago is a matrix: its singular values
are the gains of the directions that a chunk of L tokens has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemoscope.memories.infinite.signal import (
    Operators,
    Plan,
    middles,
    operators,
    positions,
    quantiles,
)

# A direction counts as kept when this share of its amplitude can be read back.
FAINT = 0.1
_CPU = torch.device("cpu")


def _maps(plan: Plan, length: int, count: int) -> Operators:
    return operators(plan, length, False, torch.float64, _CPU)(count)


@lru_cache(maxsize=64)
def used(plan: Plan, length: int) -> float:
    """Directions the first fit to L tokens uses: the trace of its smoother, at most min(N, L)."""
    _, tokens, _ = positions(plan, length, 0.0)
    fit = _maps(plan, length, 0).new
    return float((plan.basis.evaluate(tokens) * fit.T).sum())


def responses(plan: Plan, length: int, writes: int) -> Iterator[Tensor]:
    """For ages 0, 1, … ``writes`` − 1: how what a chunk said is read back at its place, (L, L).

    After so many writes, with even samples. Row i is what stands where token i went.
    """
    onward = torch.eye(plan.basis.count, dtype=torch.float64)
    scale = 1.0
    for write in range(writes - 1, -1, -1):
        maps = _maps(plan, length, write)
        share = plan.share(write) if write else 0.0
        at = scale * positions(plan, length, share)[1]
        yield plan.basis.evaluate(at) @ onward @ maps.new
        if write:
            onward = onward @ maps.old
        scale *= share


def gains(plan: Plan, length: int, writes: int) -> NDArray[np.float64]:
    """Singular values of every age's response, largest first: (writes, L)."""
    found = [torch.linalg.svdvals(response) for response in responses(plan, length, writes)]
    return torch.stack(found).numpy()


@lru_cache(maxsize=16)
def directions(plan: Plan, length: int, writes: int) -> NDArray[np.int64]:
    """How many directions of a chunk are kept, by age in writes: (writes,)."""
    kept: NDArray[np.int64] = (gains(plan, length, writes) > FAINT).sum(1)
    return kept


def frequency_gains(plan: Plan, length: int, writes: int) -> NDArray[np.float64]:
    """What is left of a wave of f cycles per chunk, by age: (writes, L // 2 + 1).

    1 is all of it, 0 nothing; the projection of what is read back on the wave that was written.
    """
    steps = torch.arange(length, dtype=torch.float64) / length
    found = []
    for response in responses(plan, length, writes):
        row = []
        for cycles in range(length // 2 + 1):
            angles = 2 * torch.pi * cycles * (steps + 0.5 / length)
            waves = [wave for wave in (angles.cos(), angles.sin()) if wave.norm() > 1e-6]
            row.append(np.mean([float(w @ response @ w / (w @ w)) for w in waves]))
        found.append(row)
    return np.array(found)


def spectrum(plan: Plan, length: int) -> NDArray[np.complex128]:
    """Eigenvalues of A, the map of one write, largest first; of "equal" shares after N writes."""
    step = _maps(plan, length, plan.basis.count).old
    values: NDArray[np.complex128] = torch.linalg.eigvals(step).numpy()
    return values[np.argsort(-np.abs(values))]


def timeline(plan: Plan, length: int, masses: Sequence[Tensor], points: int) -> Tensor:
    """Which token stands where in a signal, counted from the first one written: (R, points).

    ``masses`` (R, K) of every write say where attention had gone before it, K = 0 if samples were
    even. The times are the middles of ``points`` equal parts. Ridge regression plays no part: this
    is where tokens go, not how sharply they can be told apart.
    """
    times = middles(points)
    tokens = (times * length).expand(len(masses[0]), -1)
    for write, mass in enumerate(masses[1:], start=1):
        share = plan.share(write)
        asked = (times / share).clamp(max=1)
        seen = quantiles(mass.double(), asked) if mass.shape[1] else asked.expand_as(tokens)
        # Between two points the timeline is a straight line.
        place = (seen * points - 0.5).clamp(0, points - 1)
        left = place.floor().long().clamp(max=max(points - 2, 0))
        right = (left + 1).clamp(max=points - 1)
        old = torch.lerp(tokens.gather(1, left), tokens.gather(1, right), place - left)
        new = length * (write + (times - share) / (1 - share))
        tokens = torch.where(times <= share, old, new)
    return tokens
