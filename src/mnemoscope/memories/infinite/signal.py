"""The long-term memory of the ∞-former: a signal X̄(t) = Bᵀψ(t) over [0, 1] (Martins 2022).

Shapes: R rows, L tokens written at once, N basis functions, M samples, D width, K bins.

Writing squeezes the signal into [0, τ] and fits ridge regression to samples of it and to the new
tokens on (τ, 1]. All positions are known beforehand, so without sticky memories the write is a
linear recurrence, B' = A B + GᵀX, with matrices that depend on τ and L only.

Fitted by length, every sample and every token counts as much as the axis it stands for, which makes
a write the projection of all that was read under the uniform measure (as HiPPO-LegS, Gu 2020, with
Legendre polynomials). Fitted by count, as published, all of them count alike: once L tokens crowd
into less than one basis function they outweigh the past.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from mnemoscope.memories.infinite.basis import Basis, Rectangles
from mnemoscope.memories.shapes import Axes
from mnemoscope.memories.state import State

# Of operators held for one plan. Equal shares need another one after every write, a stream of a
# thousand writes a thousand of them: with 64 functions and 64 tokens each takes 32 kB.
OPERATOR_BYTES = 1 << 27
Fit = Literal["length", "count"]
# Smaller entries are zero: a function far from a sample has none, and denormals slow products down.
NOTHING = 1e-20


@dataclass(frozen=True)
class Plan:
    """How a signal is kept.

    basis        the functions ψ
    penalty      λ of the ridge regression; by length that of functions whose integral is one
    samples      M, points at which the old signal is read when it is squeezed
    contraction  τ, the share of [0, 1] that the past keeps at every write; "equal" is
                 τ = k / (k + 1) after k writes, so that all of them keep the same share
    fit          whether points count by the length of axis they stand for, or alike ("count")
    """

    basis: Basis
    penalty: float
    samples: int
    contraction: float | Literal["equal"]
    fit: Fit = "length"

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

    Mass is spread evenly within a bin; even mass gives back the levels.
    """
    bins = masses.shape[1]
    shares, below = _shares(masses)
    asked = (levels.to(below) * below[:, -1:]).contiguous()
    bin_of = (torch.searchsorted(below, asked) - 1).clamp(0, bins - 1)
    start, share = below.gather(1, bin_of), shares.gather(1, bin_of)
    within = ((asked - start) / share.clamp(min=1e-30)).clamp(0, 1)
    return (bin_of + within) / bins


def passed(masses: Tensor, times: Tensor) -> Tensor:
    """Shares of the mass (R, K) that lie below ``times`` (P,), (R, P): undone by `quantiles`."""
    bins, (_, below) = masses.shape[1], _shares(masses)
    place = (times.to(below) * bins).clamp(0, bins)
    left = place.floor().long().clamp(max=bins - 1)
    return torch.lerp(below[:, left], below[:, left + 1], place - left)


def _shares(masses: Tensor) -> tuple[Tensor, Tensor]:
    """Share of the mass (R, K) in every bin, (R, K), and below every edge, (R, K + 1)."""
    # Where no attention went yet, every part counts the same.
    total = masses.sum(1, keepdim=True)
    shares = torch.where(total > 0, masses / total.clamp(min=1e-30), 1 / masses.shape[1])
    return shares, F.pad(shares.cumsum(1), (1, 0))


def look(plan: Plan, masses: Tensor, share: float) -> Tensor:
    """What of the old signal a write fits, as a map of its coefficients: (R, K) -> (R, M, N).

    Values of the signal at M quantiles of the mass. Of rectangles fitted by length, (R, N, N), the
    length of each N-th that each old rectangle takes up in [0, τ]: samples would not move
    at all when τ is so near to one that none of them changes its rectangle.
    """
    if plan.fit == "length" and isinstance(plan.basis, Rectangles):
        return plan.basis.overlap(share * passed(masses, plan.basis.edges(masses)))
    return plan.basis.evaluate(quantiles(masses, levels(plan)))


@dataclass(frozen=True)
class Operators:
    """The linear maps of one write.

    old  (N, M)  from what `look` gives to coefficients; of a write that is not sticky (N, N),
                 A, from old coefficients to new ones
    new  (N, L)  from new tokens to coefficients
    """

    old: Tensor
    new: Tensor


@lru_cache(maxsize=4)
def operators(
    plan: Plan, length: int, sticky: bool, dtype: torch.dtype, device: torch.device
) -> Callable[[int], Operators]:
    """A function from writes so far to the maps of the next one, of ``length`` tokens.

    It holds those it made, as many as may be held.
    """
    columns = length + (plan.samples if sticky else plan.basis.count)
    most = OPERATOR_BYTES // (dtype.itemsize * plan.basis.count * columns)

    @lru_cache(max(1, most))
    def after(count: int) -> Operators:
        if plan.contraction != "equal" and count > 1:  # all writes but the first are alike
            return after(1)
        return _operators(plan, length, sticky, dtype, device, count)

    return after


def _operators(
    plan: Plan, length: int, sticky: bool, dtype: torch.dtype, device: torch.device, count: int
) -> Operators:
    share = plan.share(count) if count else 0.0
    # Outside inference mode, or the first training after a generation could not use them.
    with torch.inference_mode(False), torch.no_grad():
        gram, targets = (_by_length if plan.fit == "length" else _by_count)(plan, length, share)
        fit = torch.linalg.solve(gram, targets)
        old, new = fit[:, :-length], fit[:, -length:]
        if count and not sticky:
            old = old @ look(plan, torch.ones(1, 1, dtype=torch.float64, device="cpu"), share)[0]
        maps = (F.hardshrink(matrix, NOTHING) for matrix in (old, new))
        return Operators(*(matrix.to(device, dtype).contiguous() for matrix in maps))


def _by_length(plan: Plan, length: int, share: float) -> tuple[Tensor, Tensor]:
    """Gram matrix (N, N) and what old and new values are weighed with (N, M + L)."""
    basis = plan.basis
    old, new, _ = positions(plan, length, share)
    tokens = basis.evaluate(new).T
    added = tokens * ((1 - share) / length)
    eye = torch.eye(basis.count, dtype=torch.float64, device="cpu")
    gram = added @ tokens.T + plan.penalty * basis.integral**2 * eye
    if isinstance(basis, Rectangles):
        covered = basis.overlap(share * basis.edges(gram))
        return gram + covered.sum(1).diag(), torch.cat((eye if share else eye[:, :0], added), 1)
    samples = basis.evaluate(old).T
    kept = samples * (share / plan.samples)
    return gram + kept @ samples.T, torch.cat((kept, added), 1)


def _by_count(plan: Plan, length: int, share: float) -> tuple[Tensor, Tensor]:
    """As `_by_length`, every point with weight one and zeros regressed to outside [0, 1]."""
    old, new, outside = positions(plan, length, share)
    functions = plan.basis.evaluate(torch.cat((old, new, outside))).T  # (N, P)
    gram = functions @ functions.T
    gram.diagonal().add_(plan.penalty)
    # The columns of the zeros have a part in the Gram matrix only.
    return gram, functions[:, : len(old) + length]


def middles(count: int) -> Tensor:
    """The middles of ``count`` equal parts of [0, 1], in float64."""
    return (torch.arange(count, dtype=torch.float64, device="cpu") + 0.5) / count


def ends(count: int) -> Tensor:
    """The ends of ``count`` equal parts of [0, 1], in float64."""
    return torch.arange(1, count + 1, dtype=torch.float64, device="cpu") / count


def levels(plan: Plan) -> Tensor:
    """Shares of the attention mass below the M samples of the old signal."""
    return (middles if plan.fit == "length" else ends)(plan.samples)


def positions(plan: Plan, length: int, share: float) -> tuple[Tensor, Tensor, Tensor]:
    """Times of old samples, new tokens, and of the zeros outside [0, 1] that bound the signal.

    A share of 0 is the first write: there is nothing old. Samples and tokens stand in the middle
    of the axis that each stands for; by count, as published, at its end, but for the first write.
    The zeros of that fit are as dense as what is inside, half a unit to each side.
    """
    spaced = middles if plan.fit == "length" or share == 0 else ends
    old = share * spaced(plan.samples if share else 0)
    new = share + (1 - share) * spaced(length)
    if plan.fit == "length":
        return old, new, new[:0]
    points = length + len(old)
    half = 1 / (2 * length + len(old))
    grid = torch.linspace(-0.5 + half, 1.5 - half, 2 * points, dtype=torch.float64, device="cpu")
    return old, new, grid[(grid < 0) | (grid > 1)]
