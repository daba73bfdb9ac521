"""What a Compressive Transformer does with tokens that leave its cache (Rae 2019).

Shapes: B rows, P pieces of C tokens, D width, H heads, T queries, E = D / H.

Every C tokens that leave become one vector, and those wait in a second, longer queue. Pieces are
always whole: a rest shorter than C stays in the cache until it is full.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def mean(pieces: Tensor) -> Tensor:
    """Average: (B, P, C, D) -> (B, P, D)."""
    return pieces.mean(2)


def maximum(pieces: Tensor) -> Tensor:
    """Largest value of every coordinate: (B, P, C, D) -> (B, P, D)."""
    return pieces.amax(2)


def convolution(pieces: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Convolution with kernel and stride C, weight (D, C · D): (B, P, C, D) -> (B, P, D)."""
    return F.linear(pieces.flatten(2), weight, bias)


def most_used(pieces: Tensor, usage: Tensor) -> Tensor:
    """The token of every piece that attention went to most, usage (B, P, C) -> (B, P, D)."""
    best = usage.argmax(2)[:, :, None, None].expand(-1, -1, 1, pieces.shape[3])
    return pieces.gather(2, best).squeeze(2)


def attention_loss(
    queries: Tensor,
    old: tuple[Tensor, Tensor],
    new: tuple[Tensor, Tensor],
    present: Tensor | None,
    mask: Tensor | None,
) -> Tensor:
    """Mean squared difference of what queries find in tokens and in what became of them.

    queries (B, H, T, E); keys and values of the tokens (B, H, P · C, E) and of the compressed
    (B, H, P, E); present (B, P) false where a row has no such piece, mask (B, T) as ever. Positions
    play no part (Rae 2019, section 3.3). The caller detaches all that is not to be trained.
    """
    each = old[0].shape[2] // new[0].shape[2]
    seen_old = seen_new = None
    counts = torch.ones(queries.shape[0], queries.shape[2], device=queries.device)
    if present is not None:
        # A row without any piece looks at nothing that exists and counts for nothing.
        some = present | ~present.any(1, keepdim=True)
        seen_new = some[:, None, None, :]
        seen_old = some.repeat_interleave(each, 1)[:, None, None, :]
        counts = counts * present.any(1, keepdim=True)
    if mask is not None:
        counts = counts * mask
    found = F.scaled_dot_product_attention(queries, *old, attn_mask=seen_old)
    squeezed = F.scaled_dot_product_attention(queries, *new, attn_mask=seen_new)
    apart = (found - squeezed).float().square().mean((1, 3))  # (B, T)
    return (apart * counts).sum() / counts.sum().clamp(min=1)


def autoencoding_loss(restored: Tensor, pieces: Tensor, present: Tensor | None) -> Tensor:
    """Mean squared difference of pieces (B, P, C, D) and what was restored from one vector each."""
    apart = (restored - pieces).float().square().mean((2, 3))  # (B, P)
    if present is None:
        return apart.mean()
    return (apart * present).sum() / present.sum().clamp(min=1)
