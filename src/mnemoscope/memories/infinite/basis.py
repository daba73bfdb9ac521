"""Functions ψ_1 … ψ_N on [0, 1] out of which a continuous memory builds its signal.

Shapes: N functions; times may have any shape (...).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.memories.infinite.densities import normal_density


@dataclass(frozen=True)
class Gaussians:
    """Normal densities around centres spread evenly over [0, 1].

    With several widths every centre has one function of each, as in the release of the ∞-former
    (Martins 2022), where the widths are 0.005 and 0.01 however many functions there are.
    """

    integral: ClassVar[float] = 1.0
    count: int
    widths: tuple[float, ...]

    @classmethod
    def spread(cls, count: int, spacings: float) -> Gaussians:
        """Functions as wide as ``spacings`` times the distance 1/N between two of them."""
        return cls(count, (spacings / count,))

    def evaluate(self, times: Tensor) -> Tensor:
        """ψ_j(t): times (...) -> (..., N)."""
        centres, squares = constants(self, times.dtype, times.device)
        return normal_density(times, squares, centres)


@dataclass(frozen=True)
class Rectangles:
    """Functions that are one on their own N-th of [0, 1] and zero elsewhere."""

    count: int

    @property
    def integral(self) -> float:
        """Of one function."""
        return 1 / self.count

    def edges(self, like: Tensor) -> Tensor:
        """Where parts begin and the last one ends, (N + 1,)."""
        return torch.linspace(0, 1, self.count + 1, dtype=like.dtype, device=like.device)

    def overlap(self, edges: Tensor) -> Tensor:
        """Length that part i shares with [edge j, edge j + 1]: (..., N + 1) -> (..., N, N)."""
        own, edges = self.edges(edges)[:, None], edges[..., None, :]
        end = torch.minimum(edges[..., 1:], own[1:])
        return (end - torch.maximum(edges[..., :-1], own[:-1])).clamp(min=0)

    def evaluate(self, times: Tensor) -> Tensor:
        """ψ_j(t): times (...) -> (..., N)."""
        inside = (times >= 0) & (times <= 1)
        which = (times * self.count).floor().clamp(0, self.count - 1).long()
        ones = torch.nn.functional.one_hot(which, self.count)
        return (ones * inside[..., None]).to(times.dtype)


Basis = Gaussians | Rectangles


@lru_cache(maxsize=64)
def constants(basis: Gaussians, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Centres (N,) and squared widths, (N,) or (1,) when all are equally wide."""
    # Outside inference mode, or the first training after a generation could not use them.
    with torch.inference_mode(False):
        kinds = len(basis.widths)
        count = math.ceil(basis.count / kinds)
        centres = torch.linspace(0, 1, count, dtype=torch.float64, device="cpu")
        if count == 1:
            centres = torch.full_like(centres, 0.5)
        squares = torch.tensor(basis.widths, dtype=torch.float64, device="cpu").square()
        centres = centres.repeat_interleave(kinds)[: basis.count]
        if kinds > 1:
            squares = squares.repeat(count)[: basis.count]
        return centres.to(device, dtype), squares.to(device, dtype)
