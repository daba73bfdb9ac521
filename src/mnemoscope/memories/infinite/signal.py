"""The long-term memory of the ∞-former: a signal X̄(t) = Bᵀψ(t) over [0, 1] (Martins 2022).

Shapes: R rows, L tokens written at once, N basis functions, M samples, D width, K bins.

Writing squeezes the signal into [0, τ] and fits ridge regression to samples of it and to the new
tokens on (τ, 1]. All positions are known beforehand, so without sticky memories the write is a
linear recurrence, B' = A B + GᵀX, with matrices that depend on τ and L only.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from mnemoscope.memories.infinite.basis import Basis
from mnemoscope.memories.shapes import Axes
from mnemoscope.memories.state import State

# Operators held per process; one of 512 functions and 512 tokens takes 2 MB.
OPERATORS = 64
# Smaller entries are zero: a function far from a sample has none, and denormals slow products down.
NOTHING = 1e-20


@dataclass(frozen=True)
class Plan:
    """How a signal is kept.

    basis        the functions ψ
    penalty      λ of the ridge regression
    samples      M, points at which the old signal is read when it is squeezed
    contraction  τ, the share of [0, 1] that the past keeps at every write; "equal" is
                 τ = k / (k + 1) after k writes, so that all of them keep the same share
    """

    basis: Basis
    penalty: float
    samples: int
    contraction: float | Literal["equal"]

    def share(self, writes: int) -> float:
        """τ of the write that follows ``writes`` others."""
        return writes / (writes + 1) if self.contraction == "equal" else self.contraction


@dataclass(frozen=True)
class ContinuousState(State):
    """One signal a row.

    coefficients  (R, N, D)  B, with which the basis functions add up to the signal
    masses        (R, K)     attention mass of K equal parts of [0, 1] since the last write;
                             K = 0 when nobody asks
    count         (R,)       writes so far
    """

    coefficients: Annotated[Tensor, Axes("RND")]
    masses: Annotated[Tensor, Axes("RK", "sums")]
    count: Annotated[Tensor, Axes("R", "counts")]
    # Derived from the coefficients, never saved: what a reader made of them, under its own key.
    _derived: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def attended(self, masses: Tensor) -> ContinuousState:
        """Return the same signal after reads whose attention its bins got, ``masses`` (R, K)."""
        state = replace(self, masses=self.masses + masses.to(self.masses.dtype))
        state._derived.update(self._derived)
        return state


def fresh(rows: int, functions: int, bins: int, like: Tensor) -> ContinuousState:
    """A signal that is zero everywhere, as wide as ``like`` (..., D)."""
    return ContinuousState(
        like.new_zeros(rows, functions, like.shape[-1]),
        # Many small masses add up here: bfloat16 would stop counting at 256.
        like.new_zeros(rows, bins, dtype=torch.promote_types(like.dtype, torch.float32)),
        torch.zeros(rows, dtype=torch.long, device=like.device),
    )


def quantiles(masses: Tensor, levels: Tensor) -> Tensor:
    """Times below which shares ``levels`` (M,) of the mass (R, K) lie: (R, M).

    Mass is spread evenly within a bin. Where the release draws M bins at random and takes their
    left edges, this takes what such draws give on average; even mass gives back the levels.
    """
    bins = masses.shape[1]
    # Where no attention went yet, every part counts the same.
    total = masses.sum(1, keepdim=True)
    masses = torch.where(total > 0, masses / total.clamp(min=1e-30), 1 / bins)
    below = F.pad(masses.cumsum(1), (1, 0))
    asked = (levels.to(masses) * below[:, -1:]).contiguous()
    bin_of = (torch.searchsorted(below, asked) - 1).clamp(0, bins - 1)
    start, mass = below.gather(1, bin_of), masses.gather(1, bin_of)
    within = ((asked - start) / mass.clamp(min=1e-30)).clamp(0, 1)
    return (bin_of + within) / bins


@dataclass(frozen=True)
class Operators:
    """The linear maps of one write.

    old   (N, M)  from samples of the old signal to coefficients
    new   (N, L)  from new tokens to coefficients
    step  (N, N)  A, from old coefficients to new ones when the samples are even
    """

    old: Tensor
    new: Tensor
    step: Tensor


@lru_cache(maxsize=OPERATORS)
def operators(
    plan: Plan, length: int, count: int, dtype: torch.dtype, device: torch.device
) -> Operators:
    """The maps for a write of ``length`` tokens after ``count`` others."""
    if plan.contraction != "equal" and count > 1:  # all writes but the first are alike
        return operators(plan, length, 1, dtype, device)
    share = plan.share(count) if count else 0.0
    # Outside inference mode, or the first training after a generation could not use them.
    with torch.inference_mode(False), torch.no_grad():
        old, new, outside = positions(plan, length, share)
        at = torch.cat((old, new, outside))
        functions = plan.basis.evaluate(at).T  # (N, P)
        gram = functions @ functions.T
        gram.diagonal().add_(plan.penalty)
        # Zeros are regressed to outside [0, 1]: their columns have a part in the Gram matrix only.
        fit = torch.linalg.solve(gram, functions[:, : len(old) + len(new)])
        before, after = fit[:, : len(old)], fit[:, len(old) :]
        step = before @ plan.basis.evaluate(even(plan.samples)[: len(old)])
        maps = (F.hardshrink(matrix, NOTHING) for matrix in (before, after, step))
        return Operators(*(matrix.to(device, dtype).contiguous() for matrix in maps))


def even(samples: int) -> Tensor:
    """The times m / M, m = 1 … M, in float64."""
    return torch.arange(1, samples + 1, dtype=torch.float64, device="cpu") / samples


def positions(plan: Plan, length: int, share: float) -> tuple[Tensor, Tensor, Tensor]:
    """Times of old samples, new tokens, and of the zeros outside [0, 1] that bound the signal.

    A share of 0 is the first write: there is nothing old, tokens stand in the middle of their
    L-th of [0, 1]. The zeros are as dense as what is inside, half a unit to each side.
    """
    if share == 0:
        steps = torch.arange(length, dtype=torch.float64, device="cpu")
        old, new, half, points = steps[:0], (steps + 0.5) / length, 1 / (2 * length), length
    else:
        old = share * even(plan.samples)
        new = share + (1 - share) * even(length)
        half, points = 1 / (2 * length + plan.samples), length + plan.samples
    grid = torch.linspace(-0.5 + half, 1.5 - half, 2 * points, dtype=torch.float64, device="cpu")
    return old, new, grid[(grid < 0) | (grid > 1)]
