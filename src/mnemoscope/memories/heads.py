"""Vectors split into attention heads, what these attend to, and joined again.

Shapes: B rows, T tokens, S tokens attended to, D width, H heads, E = D / H.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mnemoscope.memories.layer import show
from mnemoscope.memories.positions import Rotation, rotate


def split(vectors: Tensor, heads: int, parts: int = 1) -> tuple[Tensor, ...]:
    """(B, T, parts · D) -> as many of (B, H, T, E)."""
    shape = *vectors.shape[:2], parts, heads, -1
    return vectors.view(shape).permute(2, 0, 3, 1, 4).unbind(0)


def join(vectors: Tensor) -> Tensor:
    """(B, H, T, E) -> (B, T, D)."""
    return vectors.transpose(1, 2).flatten(2)


def project(
    layer: Any, vectors: Tensor, rotation: Rotation | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values, each (B, H, T, E), of a layer with one matrix ``qkv`` for them."""
    queries, keys, values = split(layer.qkv(vectors), layer.heads, 3)
    if rotation is not None:
        queries, keys = rotate(queries, rotation), rotate(keys, rotation)
    return show(layer.queries, queries), show(layer.keys, keys), values


def softmax_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
    *,
    dropout: float = 0.0,
    causal: bool = False,
) -> Tensor:
    """Softmax attention of queries (B, H, T, E) to keys and values (B, H, S, E): (B, H, T, E).

    ``mask`` is false where a key is hidden, or what is added to the scores; ``causal`` hides later
    keys instead of a mask.
    """
    # torch's kernel for CPUs takes several times as long backward in 16 bits as these products.
    learns = torch.is_grad_enabled() and queries.requires_grad
    if not (learns and queries.device.type == "cpu" and queries.element_size() == 2):
        return F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, dropout_p=dropout, is_causal=causal
        )
    scores = (queries * queries.shape[-1] ** -0.5) @ keys.transpose(-1, -2)
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if mask is None or mask.dtype != torch.bool:
        weights = (scores if mask is None else scores + mask).softmax(-1, dtype=torch.float32)
    else:
        # Who sees nothing gets nothing, as torch has it, and no NaN.
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1, dtype=torch.float32).masked_fill(~mask, 0.0)
    return F.dropout(weights.to(values.dtype), dropout) @ values
