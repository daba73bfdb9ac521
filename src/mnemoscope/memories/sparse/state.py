"""The sparse KV state: keys and values of tokens that a pattern can still attend to, no others.

Shapes: B rows, H heads, T new tokens, S tokens in the state, E width of a head.

A pattern forgets: local attention needs the last tokens only, fixed attention its own block and
the summaries of those before. What nothing can attend to any more is dropped, row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from mnemoscope.memories.shapes import Axes
from mnemoscope.memories.sparse.patterns import Pattern
from mnemoscope.memories.state import State

# Queries that attend to a state at once.
LONG = 256


@dataclass(frozen=True)
class SparseKV(State):
    """keys, values (B, H, S, E); places (B, S), positions in the stream from 1: 0 is no token."""

    keys: Annotated[Tensor, Axes("BHSE")]
    values: Annotated[Tensor, Axes("BHSE")]
    places: Annotated[Tensor, Axes("BS", "counts")]

    def until(self, count: int) -> SparseKV:
        """The first ``count`` tokens."""
        return SparseKV(self.keys[:, :, :count], self.values[:, :, :count], self.places[:, :count])


@dataclass(frozen=True)
class SparseState(State):
    """Keys and values of each group of heads, and how many tokens every row has read, (B,)."""

    groups: tuple[SparseKV, ...]
    count: Annotated[Tensor, Axes("B", "counts")]


def append(before: SparseKV | None, keys: Tensor, values: Tensor, places: Tensor) -> SparseKV:
    """Add T tokens: keys and values (B, H, T, E), places (B, T)."""
    if before is None:
        return SparseKV(keys, values, places)
    return SparseKV(
        torch.cat((before.keys, keys), 2),
        torch.cat((before.values, values), 2),
        torch.cat((before.places, places), 1),
    )


def attend(queries: Tensor, state: SparseKV, pattern: Pattern, dropout: float = 0.0) -> Tensor:
    """Softmax attention of the newest T tokens, (B, H, T, E), over the state."""
    new, total = queries.shape[2], state.places.shape[1]
    if new > LONG:
        # Strip by strip, or the mask would be as large as the square of a long segment.
        ends = range(total - new, total, LONG)
        strips = zip(torch.split(queries, LONG, 2), ends, strict=True)
        outputs = [
            attend(strip, state.until(end + strip.shape[2]), pattern, dropout)
            for strip, end in strips
        ]
        return torch.cat(outputs, 2)
    asked, held = state.places[:, -new:, None] - 1, state.places[:, None, :] - 1
    seen = pattern.allows(asked, held) & (held >= 0)  # (B, T, S)
    # A query always sees itself, so a padded row gives a number nobody reads instead of NaN.
    seen[..., -new:] |= torch.eye(new, dtype=torch.bool, device=seen.device)
    keys, values = state.keys, state.values
    if new == 1 or total > 2 * LONG:
        # A few tokens attend to few of them: read no others.
        some = seen.any(0).any(0).nonzero().squeeze(1)
        keys, values, seen = keys[:, :, some], values[:, :, some], seen[..., some]
    return F.scaled_dot_product_attention(
        queries, keys, values, attn_mask=seen[:, None], dropout_p=dropout
    )


def forget(state: SparseKV, pattern: Pattern, count: Tensor) -> SparseKV:
    """Return what tokens from ``count`` (B,) on can still attend to."""
    places = state.places - 1
    needed = pattern.retains(places, count[:, None]) & (places >= 0)
    most = int(needed.sum(1).max())
    if most == places.shape[1]:
        return state
    # What is needed goes last, in order; rows that need less than others begin with nothing.
    order = torch.argsort(needed.to(torch.uint8), dim=1, stable=True)[:, places.shape[1] - most :]
    where = order[:, None, :, None].expand(-1, state.keys.shape[1], -1, state.keys.shape[3])
    return SparseKV(
        state.keys.gather(2, where),
        state.values.gather(2, where),
        (state.places * needed).gather(1, order),
    )
