"""The memory of a Transformer: the key and the value of every token read so far.

Shapes: B rows, H heads, T new tokens, S tokens in memory after them, E width of a head.

Appending never copies the past when nobody needs gradients: keys and values are views into a
larger buffer. Whoever holds the newest view writes on in place; an older view that is continued
a second time (a branch) copies first, so a state once returned never changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from mnemoscope.memory.state import State


@dataclass(eq=False)
class _Room:
    """Two buffers (B, H, capacity, E) that several states look into, and how much is taken."""

    keys: Tensor
    values: Tensor
    taken: int

    def takes(self, before: int, new: int) -> bool:
        """Whether a state of ``before`` tokens may write ``new`` ones here: it is the newest."""
        # torch forbids writing into tensors of inference mode once that mode is left.
        writable = torch.is_inference_mode_enabled() or not self.keys.is_inference()
        return writable and self.taken == before and before + new <= self.keys.shape[2]


@dataclass(frozen=True)
class AttentionState(State):
    """keys, values (B, H, S, E); visible (B, S) once a row was padded or reset, else None."""

    keys: Tensor
    values: Tensor
    visible: Tensor | None = None
    # Derived, never saved: where the views may grow in place.
    _room: list[_Room] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def length(self) -> int:
        """Tokens held, padding included."""
        return self.keys.shape[2]

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
    visible = _visibility(state, keys, mask)
    if state is None:
        return AttentionState(keys, values, visible)
    if torch.is_grad_enabled():
        joined = torch.cat((state.keys, keys), 2), torch.cat((state.values, values), 2)
        return AttentionState(*joined, visible)

    before, new = state.length, keys.shape[2]
    room = state._room[0] if state._room else None
    if room is None or not room.takes(before, new):
        room = _make_room(state, before + new)
    room.keys.narrow(2, before, new).copy_(keys)
    room.values.narrow(2, before, new).copy_(values)
    room.taken = before + new
    grown = AttentionState(
        room.keys.narrow(2, 0, room.taken), room.values.narrow(2, 0, room.taken), visible
    )
    grown._room.append(room)
    return grown


def _make_room(state: AttentionState, needed: int) -> _Room:
    batch, heads, length, size = state.keys.shape
    # Doubling keeps the copying of a long stream linear in its length.
    capacity = max(2 * needed, 64)
    room = _Room(
        state.keys.new_empty(batch, heads, capacity, size),
        state.values.new_empty(batch, heads, capacity, size),
        length,
    )
    room.keys[:, :, :length] = state.keys
    room.values[:, :, :length] = state.values
    return room


def _visibility(state: AttentionState | None, keys: Tensor, mask: Tensor | None) -> Tensor | None:
    """Which tokens of each row may be looked at; None as long as that is all of them."""
    past = None if state is None else state.visible
    if past is None and mask is None:
        return None
    batch, new = keys.shape[0], keys.shape[2]
    if past is None:
        length = 0 if state is None else state.length
        past = keys.new_ones(batch, length, dtype=torch.bool)
    if mask is None:
        mask = keys.new_ones(batch, new, dtype=torch.bool)
    return torch.cat((past, mask), 1)


def attend(queries: Tensor, state: AttentionState, dropout: float = 0.0) -> Tensor:
    """Causal softmax attention of the newest T tokens, (B, H, T, E), over all S in the state."""
    new, total = queries.shape[2], state.length
    mask, causal = None, False
    if state.visible is not None:
        order = torch.ones(new, total, dtype=torch.bool, device=queries.device)
        # A query always sees itself, so a padded row gives a number nobody reads instead of NaN.
        itself = torch.eye(new, dtype=torch.bool, device=queries.device)
        mask = order.tril(total - new) & state.visible[:, None, None, :]
        mask[..., total - new :] |= itself
    elif new == total:
        causal = True
    elif new > 1:
        order = torch.ones(new, total, dtype=torch.bool, device=queries.device)
        mask = order.tril(total - new)
    return F.scaled_dot_product_attention(
        queries, state.keys, state.values, attn_mask=mask, dropout_p=dropout, is_causal=causal
    )
