"""Attention by distance: positions that stay right as a stream moves on (Dai 2019).

Shapes: B rows, H heads, T new tokens, S = cached + new tokens, E width of a head.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from mnemoscope.memories.heads import softmax_attention


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
    queries = queries + content_bias[:, None]
    return softmax_attention(queries, keys, values, bias, dropout=dropout)


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
