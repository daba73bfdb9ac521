"""The memory of Transformer-XL: what each layer was given for the last tokens (Dai 2019).

Shapes: B rows, H heads, T new tokens, S = cached + new tokens, D width, E width of a head.

Keys and values are made anew from the cached inputs, so a token needs one vector and not two;
positions are distances, so that what was cached once stays right as the stream moves on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from mnemoscope.memories.shapes import Axes
from mnemoscope.memories.state import State


@dataclass(frozen=True)
class CacheState(State):
    """inputs (B, S, D) of a layer; visible (B, S) once a row was padded or reset, else None."""

    inputs: Annotated[Tensor, Axes("BSD")]
    visible: Annotated[Tensor, Axes("BS", "flags")] | None = None

    @property
    def length(self) -> int:
        """Tokens held, padding included."""
        return self.inputs.shape[1]

    def last(self, count: int) -> CacheState:
        """Return the newest ``count`` tokens of every row; those before are forgotten."""
        drop = self.length - count
        if self.visible is None:
            return self if drop <= 0 else CacheState(self.inputs[:, drop:])
        # Padding goes first: it must not take the place of a token, nor stand between two.
        order = torch.argsort(self.visible.to(torch.uint8), dim=1, stable=True)[:, max(drop, 0) :]
        where = order[:, :, None].expand(-1, -1, self.inputs.shape[2])
        return CacheState(self.inputs.gather(1, where), self.visible.gather(1, order))

    def leave(self, keep: int, piece: int) -> tuple[CacheState, Left | None]:
        """Let the oldest tokens go in whole pieces, as many as leave at least ``keep`` behind."""
        rows, length, width = self.inputs.shape
        if self.visible is None:
            pieces = max(0, length - keep) // piece
            if pieces == 0:
                return self, None
            gone = self.inputs[:, : pieces * piece].view(rows, pieces, piece, width)
            return CacheState(self.inputs[:, pieces * piece :]), Left(gone, None)
        # Each row lets go of its own tokens; padding stands first, so they are in one stretch.
        state = self.last(length)
        assert state.visible is not None
        real = state.visible.sum(1)
        own = (real - keep).clamp(min=0) // piece  # (B,) pieces
        rest = int((real - own * piece).max())
        pieces = int(own.max())
        if pieces == 0:
            return state.last(rest), None
        places = torch.arange(pieces * piece, device=self.inputs.device)
        where = (length - real[:, None] + places).clamp(max=length - 1)
        gone = state.inputs.gather(1, where[:, :, None].expand(-1, -1, width))
        steps = torch.arange(length, device=self.inputs.device)
        still = state.visible & (steps >= (length - real + own * piece)[:, None])
        present = torch.arange(pieces, device=own.device) < own[:, None]
        left = Left(gone.view(rows, pieces, piece, width), present)
        return CacheState(state.inputs, still).last(rest), left

    def _forget(self, fresh: Tensor) -> CacheState:
        visible = self.visible
        if visible is None:
            visible = self.inputs.new_ones(self.batch, self.length, dtype=torch.bool)
        return super(CacheState, CacheState(self.inputs, visible))._forget(fresh)


@dataclass(frozen=True)
class Left:
    """Tokens that left a cache: tokens (B, pieces, piece, D) in reading order.

    ``present`` (B, pieces) is false where a row let go of fewer pieces, None when none did.
    """

    tokens: Tensor
    present: Tensor | None


def append(state: CacheState | None, inputs: Tensor, mask: Tensor | None) -> CacheState:
    """Add T tokens: inputs (B, T, D), mask (B, T) false where a token is padding."""
    if state is None:
        return CacheState(inputs, mask)
    joined = torch.cat((state.inputs, inputs), 1)
    if state.visible is None and mask is None:
        return CacheState(joined)
    past = state.visible
    if past is None:
        past = inputs.new_ones(inputs.shape[0], state.length, dtype=torch.bool)
    if mask is None:
        mask = inputs.new_ones(inputs.shape[:2], dtype=torch.bool)
    return CacheState(joined, torch.cat((past, mask), 1))


def attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    distances: Tensor,
    content_bias: Tensor,
    position_bias: Tensor,
    visible: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Attention whose scores are ((q + u)·k + (q + v)·r(i − j)) / √E, for tokens j ≤ i.

    queries (B, H, T, E) of the newest tokens, keys and values (B, H, S, E), distances (H, S, E)
    for the distances S−1 … 0, content_bias u and position_bias v (H, E), visible (B, S).
    """
    bias = position_scores(queries, distances, position_bias, visible)
    return F.scaled_dot_product_attention(
        queries + content_bias[:, None], keys, values, attn_mask=bias, dropout_p=dropout
    )


def position_scores(
    queries: Tensor, distances: Tensor, position_bias: Tensor, visible: Tensor | None = None
) -> Tensor:
    """What distance adds to the scores, (q + v)·r(i − j) / √E, and −∞ for what is hidden.

    Shapes as in `attend`; returns (B, H, T, S).
    """
    new, total = queries.shape[2], distances.shape[1]
    # One product gives the scores of all distances, behind a column that belongs to none.
    scaled = (queries + position_bias[:, None]) / math.sqrt(queries.shape[3])
    by_distance = scaled @ F.pad(distances, (0, 0, 1, 0)).transpose(1, 2)  # (B, H, T, 1 + S)
    if visible is None:
        return by_key(by_distance)
    # Padding takes no place: distances are counted in each row's own tokens.
    place = visible.cumsum(1)
    apart = (place[:, -new:, None] - place[:, None, :]).clamp(min=0)  # (B, T, S)
    where = (total - apart)[:, None].expand(-1, queries.shape[1], -1, -1)
    allowed = torch.ones(new, total, dtype=torch.bool, device=queries.device)
    allowed = allowed.tril(total - new) & visible[:, None, None, :]
    # A query always sees itself, so a padded row gives a number nobody reads instead of NaN.
    allowed[..., total - new :] |= torch.eye(new, dtype=torch.bool, device=queries.device)
    return by_distance.gather(3, where).masked_fill(~allowed, -torch.inf)


@torch.no_grad()
def weights(
    queries: Tensor,
    keys: Tensor,
    distances: Tensor,
    content_bias: Tensor,
    position_bias: Tensor,
    visible: Tensor | None,
) -> Tensor:
    """The weights with which `attend` adds up the values, (B, H, T, S), without a gradient."""
    content = (queries + content_bias[:, None]) @ keys.transpose(2, 3) / math.sqrt(keys.shape[3])
    return (content + position_scores(queries, distances, position_bias, visible)).softmax(-1)


def by_key(by_distance: Tensor) -> Tensor:
    """Turn scores by distance (B, H, T, 1 + S) into scores by key (B, H, T, S), without a copy.

    Column 1 + c belongs to the distance S−1−c, and query t finds its key j at the distance
    S−T+t−j. So row t has to move left by T−t, and in memory that is what reading rows of S instead
    of 1 + S numbers does, from the T-th number on (the relative shift of Dai 2019, appendix B).
    What a row reads beyond its own end are the first numbers of the next row, which that row does
    not need: they stand for keys in the future and become −∞.
    """
    rows, heads, new, columns = by_distance.shape
    total = columns - 1
    steps = torch.arange(new, device=by_distance.device)
    unused = steps[None, :] < new - steps[:, None]
    by_distance[..., :new].masked_fill_(unused, -torch.inf)
    flat = by_distance.view(rows, heads, new * columns).narrow(2, new, new * total)
    return flat.view(rows, heads, new, total)
