"""The memory of a Sparse Transformer: the tokens that its pattern can still look at, no others.

Shapes: B rows, H heads, T new tokens, S tokens kept, E width of a head.

A pattern forgets: local attention needs the last tokens only, fixed attention its own block and
the summaries of those before. What nobody can look at any more is dropped, row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from mnemoscope.memories.pattern import Pattern
from mnemoscope.memories.shapes import Axes
from mnemoscope.memories.state import State


@dataclass(frozen=True)
class Kept(State):
    """keys, values (B, H, S, E); places (B, S) in the stream, counted from 1: 0 is no token."""

    keys: Annotated[Tensor, Axes("BHSE")]
    values: Annotated[Tensor, Axes("BHSE")]
    places: Annotated[Tensor, Axes("BS", "counts")]


@dataclass(frozen=True)
class SparseState(State):
    """What each group of heads keeps, and how many tokens every row has read, (B,)."""

    groups: tuple[Kept, ...]
    count: Annotated[Tensor, Axes("B", "counts")]


def append(before: Kept | None, keys: Tensor, values: Tensor, places: Tensor) -> Kept:
    """Add T tokens: keys and values (B, H, T, E), places (B, T)."""
    if before is None:
        return Kept(keys, values, places)
    return Kept(
        torch.cat((before.keys, keys), 2),
        torch.cat((before.values, values), 2),
        torch.cat((before.places, places), 1),
    )


def attend(queries: Tensor, kept: Kept, pattern: Pattern, dropout: float = 0.0) -> Tensor:
    """Softmax attention of the newest T tokens, (B, H, T, E), over what is kept."""
    new = queries.shape[2]
    asked, places = kept.places[:, -new:, None] - 1, kept.places[:, None, :] - 1
    seen = pattern.allows(asked, places) & (places >= 0)  # (B, T, S)
    # A query always sees itself, so a padded row gives a number nobody reads instead of NaN.
    seen[..., -new:] |= torch.eye(new, dtype=torch.bool, device=seen.device)
    keys, values = kept.keys, kept.values
    if new == 1:
        # One token looks at few of those that are kept: read no others.
        some = seen.any(0)[0].nonzero().squeeze(1)
        keys, values, seen = keys[:, :, some], values[:, :, some], seen[..., some]
    return F.scaled_dot_product_attention(
        queries, keys, values, attn_mask=seen[:, None], dropout_p=dropout
    )


def forget(kept: Kept, pattern: Pattern, count: Tensor) -> Kept:
    """Return what tokens from ``count`` (B,) on can still look at."""
    places = kept.places - 1
    needed = pattern.keeps(places, count[:, None]) & (places >= 0)
    most = int(needed.sum(1).max())
    if most == places.shape[1]:
        return kept
    # What is needed goes last, in order; rows that need less than others begin with nothing.
    order = torch.argsort(needed.to(torch.uint8), dim=1, stable=True)[:, places.shape[1] - most :]
    where = order[:, None, :, None].expand(-1, kept.keys.shape[1], -1, kept.keys.shape[3])
    return Kept(
        kept.keys.gather(2, where),
        kept.values.gather(2, where),
        (kept.places * needed).gather(1, order),
    )
