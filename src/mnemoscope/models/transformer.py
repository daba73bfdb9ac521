"""Decoder TransformerBase: pre-norm blocks around attention over some memory.

Shapes: B rows, T tokens, D width, H heads, E = D / H.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnemoscope.memories.attention import AttentionState, append, attend
from mnemoscope.memories.shapes import Wanted
from mnemoscope.models.config import Relative, Transformer, TransformerBase
from mnemoscope.models.footprint import check as check_size
from mnemoscope.models.model import Context, SequenceModel, Tap, show
from mnemoscope.models.positions import Positions, rotate
from mnemoscope.models.relative import RelativeAttention


class SelfAttention(nn.Module):
    """Multi-head attention of a segment over itself and what was read before."""

    def __init__(self, width: int, heads: int, context: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.context, self.dropout = heads, context, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.queries, self.keys = Tap(), Tap()

    @property
    def wants(self) -> Wanted:
        """The state that it can go on from."""
        return Wanted(AttentionState, {"H": self.heads, "E": self.out.in_features // self.heads})

    def forward(
        self, vectors: Tensor, state: AttentionState | None, context: Context
    ) -> tuple[Tensor, AttentionState]:
        """vectors (B, T, D) -> what was found (B, T, D), and the memory of the last tokens."""
        batch, length, width = vectors.shape
        heads = self.qkv(vectors).view(batch, length, 3, self.heads, -1)
        queries, keys, values = heads.permute(2, 0, 3, 1, 4).unbind(0)  # each (B, H, T, E)
        if context.rotation is not None:
            queries, keys = rotate(queries, context.rotation), rotate(keys, context.rotation)
        queries, keys = show(self.queries, queries), show(self.keys, keys)
        state = append(state, keys, values, context.mask)
        found = attend(queries, state, self.context, self.dropout if self.training else 0.0)
        vectors = self.out(found.transpose(1, 2).reshape(batch, length, width))
        # The next token sees itself and context − 1 before it: nothing older is needed again.
        return vectors, state.last(self.context - 1)


class Block(nn.Module):
    """x + attention(norm(x)), then + feed-forward(norm(that)).

    The attention is any module with a final projection ``out``, called as
    ``attention(vectors, state, context) -> (vectors, state)``.
    """

    def __init__(
        self, config: TransformerBase, attention: SelfAttention | RelativeAttention
    ) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width)
        self.attention = attention
        self.norm2 = nn.LayerNorm(config.width)
        self.expand = nn.Linear(config.width, config.inner)
        self.contract = nn.Linear(config.inner, config.width)
        self.dropout = config.dropout
        # 2·layers branches add up along the residual stream: shrink each so the sum stays near one.
        with torch.no_grad():
            for branch in (self.attention.out, self.contract):
                branch.weight /= math.sqrt(2 * config.layers)

    @property
    def wants(self) -> Wanted:
        """The state that it can go on from."""
        return self.attention.wants

    def forward(self, vectors: Tensor, state: Any, context: Context) -> tuple[Tensor, Any]:
        """vectors (B, T, D) -> vectors (B, T, D), state."""
        found, state = self.attention(self.norm1(vectors), state, context)
        vectors = vectors + self._drop(found)
        thought = self.contract(F.gelu(self.expand(self.norm2(vectors)), approximate="tanh"))
        return vectors + self._drop(thought), state

    def _drop(self, branch: Tensor) -> Tensor:
        # A module call that does nothing would cost as much as a layer norm per generated token.
        return F.dropout(branch, self.dropout) if self.training and self.dropout else branch


def build(config: TransformerBase) -> SequenceModel:
    """Build the model that a config describes."""
    check_size(config)
    positions = Positions("none", config.width)
    if isinstance(config, Transformer):
        positions = Positions(
            config.positions,
            config.width,
            context=config.context,
            head=config.width // config.heads,
        )
    blocks = [Block(config, _attention(config)) for _ in range(config.layers)]
    model = SequenceModel(config, blocks, positions, norm=True)
    if config.tied:
        model.readout.weight = model.embedding.weight
    return model


def _attention(config: TransformerBase) -> SelfAttention | RelativeAttention:
    if isinstance(config, Relative):
        return RelativeAttention(config)
    assert isinstance(config, Transformer)
    return SelfAttention(config.width, config.heads, config.context, config.dropout)
