"""A signal of rectangles that a model's own attention reads: keys and values of earlier tokens.

Of the Gibbs density p(t) ∝ exp(q·K(t)/√E) and a signal that is constant on N equal parts the
integral is a softmax over N keys (`memories.infinite.long_term`). Here the window's own keys are in
the same softmax, so a frozen model can read the past with the maps it has. A write squeezes the
past into the parts that the new tokens leave, and every part takes the value the old signal has at
one point (Martins 2022 resamples it too): evenly spaced, or where attention went (sticky memories).
Values are taken, not averaged: a mean of keys is nothing that a frozen model was trained to find.

Shapes: R rows, H key-value heads, N parts, L tokens written at once, E size of a head.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from mnemoscope.memories.shapes import Axes
from mnemoscope.memories.state import State

Keep = Literal["even", "attended", "recent", "pooled"]
# What attention before the last window still counts, when it is asked where attention went.
DECAY = 0.25
# Tokens further back than this are read as if they were so far back.
REACH = 2048
SURE = 1e30


@dataclass(frozen=True)
class SlotState(State):
    """Keys and values of N earlier tokens; what is empty has time 0.

    keys, values  (R, H, N, E)  keys as they are before their rotation
    times         (R, N)        1 + the place of the token in its stream
    masses        (R, N)        attention that it got
    """

    keys: Annotated[Tensor, Axes("RHNE")]
    values: Annotated[Tensor, Axes("RHNE")]
    times: Annotated[Tensor, Axes("RN", "sums")]
    masses: Annotated[Tensor, Axes("RN", "sums")]
    # Derived, never saved: keys as they are rotated for the window that follows.
    _derived: dict[str, Tensor] = field(default_factory=dict, init=False, repr=False, compare=False)

    def attended(self, masses: Tensor) -> SlotState:
        """The same after reads whose attention mass was ``masses`` (R, N)."""
        state = replace(self, masses=self.masses + masses.to(self.masses.dtype))
        state._derived.update(self._derived)
        return state


@dataclass(frozen=True)
class SlotPlan:
    """What N parts keep of a stream.

    count   N, the sinks among them
    sinks   first tokens of the stream, which are never let go (Xiao 2023, "Efficient streaming
            language models with attention sinks")
    keep    even      samples of the old signal at even distances
            attended  those that got most attention
            recent    the last ones, as Transformer-XL does
            pooled    means of ``rate`` neighbours before the last write, as Compressive does
    rate    of pooling
    """

    count: int
    sinks: int
    keep: Keep
    rate: int = 4

    def fresh(self, rows: int, heads: int, size: int, like: Tensor) -> SlotState:
        """Nothing is kept yet."""
        empty = like.new_zeros(rows, heads, self.count, size)
        none = like.new_zeros(rows, self.count, dtype=torch.float32)
        return SlotState(empty, empty, none, none)

    def write(
        self, state: SlotState, keys: Tensor, values: Tensor, rows: Tensor | None = None
    ) -> SlotState:
        """Add L tokens (R, H, L, E), in all rows or in those that ``rows`` (R,) says."""
        length = keys.shape[2]
        times = state.times.amax(1, keepdim=True) + torch.arange(1, length + 1).to(state.times)
        new = SlotState(keys.detach(), values.detach(), times, torch.zeros_like(times))
        old = replace(state, masses=DECAY * state.masses)
        worth = [self._worth(old, length), torch.full_like(times, SURE)]
        candidates = [old, new]
        if self.keep == "pooled":
            # What was written last lives on as means only, but for the sinks.
            means = _means(old, length, self.rate)
            let_go = torch.arange(self.count, device=times.device) >= self.count - length
            let_go = let_go & (old.times > self.sinks)
            candidates = [replace(old, times=old.times.masked_fill(let_go, 0)), means, new]
            worth.insert(1, means.times)
        joined = SlotState(*(torch.cat(parts, _axis(parts[0])) for parts in _aligned(candidates)))
        wanted = torch.cat(worth, 1)
        # A sink is never let go, and what is empty always is.
        wanted = wanted.masked_fill(joined.times <= self.sinks, 2 * SURE)
        wanted = wanted.masked_fill(joined.times == 0, -SURE)
        kept = _gathered(joined, wanted.topk(self.count, dim=1).indices.sort(dim=1).values)
        if rows is None:
            return kept
        return SlotState(*(_where(rows, *two) for two in _aligned([kept, state])))

    def _worth(self, old: SlotState, length: int) -> Tensor:
        """What of the old (R, N) is rather kept; new tokens are kept whole."""
        times = old.times
        if self.keep in ("recent", "pooled"):
            return times
        if self.keep == "attended":
            return old.masses
        # Of n samples k are kept at even distances: those where ⌊rank k / n⌋ steps up.
        candidate = times > self.sinks
        n = candidate.sum(1, keepdim=True).clamp(min=1)
        k = n.clamp(max=self.count - self.sinks - length)
        steps = (candidate.cumsum(1) * k).div(n, rounding_mode="floor")
        return steps.diff(dim=1, prepend=torch.zeros_like(n)).to(times.dtype)


class Rotation:
    """The rotary positions of a model: angles of half-split pairs, as its `rotary_emb` has them.

    Positions are whole numbers from ``-furthest`` to 0. Their angles are computed once, in float64.
    """

    def __init__(self, model: nn.Module, furthest: int) -> None:
        found = [part for name, part in model.named_modules() if name.endswith("rotary_emb")]
        self.frequencies: Tensor | None = getattr(found[0], "inv_freq", None) if found else None
        self.furthest = furthest
        self._turns: dict[tuple[torch.dtype, torch.device], tuple[Tensor, Tensor]] = {}

    def __call__(self, keys: Tensor, positions: Tensor) -> Tensor:
        """Rotate keys (R, H, N, E) to positions (R, N); by negative ones it is undone."""
        if self.frequencies is None:
            return keys
        cos, sin = (one[-positions.long()][:, None] for one in self._table(keys))
        size = 2 * cos.shape[-1]
        one, two = keys[..., :size].chunk(2, -1)
        rotated = torch.cat((one * cos - two * sin, two * cos + one * sin), -1)
        return torch.cat((rotated, keys[..., size:]), -1)

    def _table(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Cosine and sine at positions 0, -1, … , (furthest + 1, E / 2) each."""
        kind = keys.dtype, keys.device
        if kind not in self._turns:
            assert self.frequencies is not None
            back = -torch.arange(self.furthest + 1, dtype=torch.float64)  # no float64 on MPS
            angles = back[:, None] * self.frequencies.double().cpu()
            self._turns[kind] = angles.cos().to(keys), angles.sin().to(keys)
        return self._turns[kind]


def relative(state: SlotState) -> Tensor:
    """Positions (R, N) of what is kept, from the start of the window that follows; negative."""
    return (state.times - state.times.amax(1, keepdim=True) - 1).clamp(min=-REACH)


def _aligned(states: Sequence[SlotState]) -> Iterator[list[Tensor]]:
    """Keys of all of them, then values, times, masses."""
    for name in ("keys", "values", "times", "masses"):
        yield [getattr(state, name) for state in states]


def _axis(one: Tensor) -> int:
    return 2 if one.dim() == 4 else 1


def _means(state: SlotState, length: int, rate: int) -> SlotState:
    """Means of ``rate`` neighbours among the last ``length``."""
    last, groups = state.times.shape[1] - length, (-1, rate)
    cut = (one.narrow(_axis(one), last, length) for (one,) in _aligned([state]))
    grouped = (torch.unflatten(one, _axis(one), groups) for one in cut)
    return SlotState(*(one.mean(2 if one.dim() == 3 else 3) for one in grouped))


def _where(rows: Tensor, new: Tensor, old: Tensor) -> Tensor:
    return torch.where(rows.view(-1, *[1] * (new.dim() - 1)), new, old)


def _gathered(state: SlotState, index: Tensor) -> SlotState:
    wide = index[:, None, :, None].expand(-1, state.keys.shape[1], -1, state.keys.shape[3])
    return SlotState(
        state.keys.gather(2, wide),
        state.values.gather(2, wide),
        state.times.gather(1, index),
        state.masses.gather(1, index),
    )
