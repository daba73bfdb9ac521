"""The state of a Transformer: the keys and the values of the tokens it can attend to.

Shapes: B rows, H heads, T new tokens, S tokens in memory after them, E width of a head.

Appending never copies the past when nobody needs gradients: keys and values are views into a
larger buffer. Whoever holds the newest view writes on in place; an older view that is continued
a second time (a branch) copies first, so a state once returned never changes. Every vector in the
buffer begins on a boundary of 64 bytes: on some processors attention rounds differently with the
address of its keys, and a stream must not depend on how much room it had.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated

import torch
from torch import Tensor

from mnemoscope.memories.shapes import Axes
from mnemoscope.memories.state import State, joined_visibility

# Bytes; where torch's own tensors begin.
BOUNDARY = 64


@dataclass(eq=False)
class _Room:
    """Two buffers that several states look into, and how much is taken.

    keys, values (B, H, capacity, E), the first E of rows that are a multiple of 64 bytes long.
    """

    keys: Tensor
    values: Tensor
    taken: int

    def takes(self, end: int, new: int) -> bool:
        """Whether a state that ends at ``end`` may write ``new`` tokens here: it is the newest."""
        # torch forbids writing into tensors of inference mode once that mode is left.
        writable = torch.is_inference_mode_enabled() or not self.keys.is_inference()
        return writable and self.taken == end and end + new <= self.keys.shape[2]


@dataclass(frozen=True)
class AttentionState(State):
    """keys, values (B, H, S, E); visible (B, S) once a row was padded or reset, else None."""

    keys: Annotated[Tensor, Axes("BHSE")]
    values: Annotated[Tensor, Axes("BHSE")]
    visible: Annotated[Tensor, Axes("BS", "flags")] | None = None
    # Derived, never saved: the room the views may grow in, and where in it they end.
    _place: list[tuple[_Room, int]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    @property
    def length(self) -> int:
        """Tokens held, padding included."""
        return self.keys.shape[2]

    def last(self, count: int) -> AttentionState:
        """Return the newest ``count`` tokens of every row; those before are forgotten."""
        drop = self.length - count
        if drop <= 0:
            return self
        if self.visible is not None:
            # Padding goes first: it must not take the place of a token.
            order = torch.argsort(self.visible.to(torch.uint8), dim=1, stable=True)[:, drop:]
            heads, size = self.keys.shape[1], self.keys.shape[3]
            where = order[:, None, :, None].expand(-1, heads, -1, size)
            keys, values = self.keys.gather(2, where), self.values.gather(2, where)
            return AttentionState(keys, values, self.visible.gather(1, order))
        state = AttentionState(
            self.keys.narrow(2, drop, count), self.values.narrow(2, drop, count), None
        )
        state._place.extend(self._place)
        return state

    def _forget(self, fresh: Tensor) -> AttentionState:
        visible = self.visible
        if visible is None:
            visible = self.keys.new_ones(self.batch, self.length, dtype=torch.bool)
        state = AttentionState(self.keys, self.values, visible)
        return super(AttentionState, state)._forget(fresh)


def append(
    state: AttentionState | None, keys: Tensor, values: Tensor, mask: Tensor | None = None
) -> AttentionState:
    """Add T tokens: keys and values (B, H, T, E), mask (B, T) false where a token is padding."""
    if state is None:
        return AttentionState(keys, values, mask)
    visible = joined_visibility(keys, state.visible, state.length, mask, keys.shape[2])
    if torch.is_grad_enabled():
        joined = torch.cat((state.keys, keys), 2), torch.cat((state.values, values), 2)
        return AttentionState(*joined, visible)

    before, new = state.length, keys.shape[2]
    room, end = state._place[0] if state._place else (None, before)
    if room is None or not room.takes(end, new):
        room, end = _make_room(state, before + new), before
    room.keys.narrow(2, end, new).copy_(keys)
    room.values.narrow(2, end, new).copy_(values)
    room.taken = end + new
    first, total = end - before, before + new
    grown = AttentionState(
        room.keys.narrow(2, first, total), room.values.narrow(2, first, total), visible
    )
    grown._place.append((room, room.taken))
    return grown


def _make_room(state: AttentionState, needed: int) -> _Room:
    batch, heads, length, size = state.keys.shape
    # Doubling keeps the copying of a long stream linear in its length.
    capacity = max(2 * needed, 64)
    step = BOUNDARY // state.keys.element_size()
    shape = batch, heads, capacity, math.ceil(size / step) * step
    room = _Room(
        state.keys.new_empty(shape)[..., :size], state.values.new_empty(shape)[..., :size], length
    )
    room.keys[:, :, :length] = state.keys
    room.values[:, :, :length] = state.values
    return room
