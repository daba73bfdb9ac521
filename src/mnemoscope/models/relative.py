"""Attention by distance over a cache of inputs: the layer of Transformer-XL (Dai 2019).

Shapes: B rows, T new tokens, S = cached + new tokens, D width, H heads, E = D / H.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mnemoscope.memory.cache import CacheState, append, attend
from mnemoscope.models.model import Context
from mnemoscope.models.positions import waves


class RelativeAttention(nn.Module):
    """Multi-head attention of a segment over itself and ``cached`` tokens before it."""

    def __init__(self, width: int, heads: int, cached: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.cached, self.dropout = heads, cached, dropout
        # No biases: those of the queries are the two below, those of keys would change no score.
        self.query = nn.Linear(width, width, bias=False)
        self.pairs = nn.Linear(width, 2 * width, bias=False)  # keys and values
        self.distance = nn.Linear(width, width, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(heads, width // heads))
        self.position_bias = nn.Parameter(torch.zeros(heads, width // heads))
        self.out = nn.Linear(width, width)

    def forward(
        self, vectors: Tensor, state: CacheState | None, context: Context
    ) -> tuple[Tensor, CacheState]:
        """vectors (B, T, D) -> what was found (B, T, D), and the cache of the last tokens."""
        batch, new, width = vectors.shape
        state = append(state, vectors, context.mask)
        queries = self.query(vectors).view(batch, new, self.heads, -1).transpose(1, 2)
        pairs = self.pairs(state.inputs).view(batch, state.length, 2, self.heads, -1)
        keys, values = pairs.permute(2, 0, 3, 1, 4).unbind(0)  # each (B, H, S, E)
        apart = torch.arange(state.length - 1, -1, -1, device=vectors.device)
        distances = self.distance(waves(apart, width).to(vectors.dtype))
        found = attend(
            queries,
            keys,
            values,
            distances.view(state.length, self.heads, -1).transpose(0, 1),
            self.content_bias,
            self.position_bias,
            state.visible,
            self.dropout if self.training else 0.0,
        )
        vectors = self.out(found.transpose(1, 2).reshape(batch, new, width))
        return vectors, state.last(self.cached)
