"""Vectors split into attention heads, and joined again.

Shapes: B rows, T tokens, D width, H heads, E = D / H.
"""

from __future__ import annotations

from typing import Any

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
