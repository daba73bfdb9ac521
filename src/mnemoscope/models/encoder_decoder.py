"""The Transformer of "Attention is all you need": an encoder, and a decoder that looks at it.

Shapes: B rows, S source words, T target tokens, D width, H heads, E = D / H.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnemoscope.memories.attention import AttentionState
from mnemoscope.memories.shapes import Wanted
from mnemoscope.memories.state import State, own
from mnemoscope.memories.words import CrossState, looked_at
from mnemoscope.models.encoder_config import EncoderStack
from mnemoscope.models.footprint import check as check_size
from mnemoscope.models.model import Context, Tap, show
from mnemoscope.models.positions import Positions, Rotation, rotate
from mnemoscope.models.source import SourceModel
from mnemoscope.models.transformer import SelfAttention
from mnemoscope.models.translation_config import EncoderDecoder

# A sentence is looked at whole, however long it is.
ENDLESS = 1 << 40


class FullAttention(nn.Module):
    """Every word looks at every other, later ones too unless ``causal``."""

    def __init__(self, config: EncoderStack, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.dropout, self.causal = config.heads, config.dropout, causal
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)
        self.queries, self.keys = Tap(), Tap()

    def forward(
        self, vectors: Tensor, mask: Tensor | None, rotation: Rotation | None = None
    ) -> Tensor:
        """vectors (B, S, D), mask (B, S) -> what was found (B, S, D)."""
        batch, length, width = vectors.shape
        heads = self.qkv(vectors).view(batch, length, 3, self.heads, -1)
        queries, keys, values = heads.permute(2, 0, 3, 1, 4).unbind(0)  # each (B, H, S, E)
        if rotation is not None:
            queries, keys = rotate(queries, rotation), rotate(keys, rotation)
        queries, keys = show(self.queries, queries), show(self.keys, keys)
        found = F.scaled_dot_product_attention(
            queries,
            keys,
            values,
            attn_mask=self._visible(mask),
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=self.causal and mask is None,
        )
        projected: Tensor = self.out(found.transpose(1, 2).reshape(batch, length, width))
        return projected

    def _visible(self, mask: Tensor | None) -> Tensor | None:
        """Which words each may look at, (B, 1, 1 or S, S)."""
        if mask is None or not self.causal:
            return None if mask is None else mask[:, None, None]
        length = mask.shape[1]
        past = torch.ones(length, length, dtype=torch.bool, device=mask.device).tril()
        # A word always sees itself, or what is hidden at the start would be NaN.
        itself = torch.eye(length, dtype=torch.bool, device=mask.device)
        return (past & mask[:, None, None]) | itself


class CrossAttention(nn.Module):
    """Target tokens look at the source, whose keys and values are made once."""

    def __init__(self, config: EncoderDecoder) -> None:
        super().__init__()
        self.heads, self.dropout = config.heads, config.dropout
        self.query = nn.Linear(config.width, config.width)
        self.pairs = nn.Linear(config.width, 2 * config.width)  # keys and values
        self.out = nn.Linear(config.width, config.width)
        self.alignment = Tap()

    def remember(self, vectors: Tensor, mask: Tensor | None) -> AttentionState:
        """Encoded words (B, S, D) -> keys and values, each (B, H, S, E)."""
        batch, length, _ = vectors.shape
        pairs = self.pairs(vectors).view(batch, length, 2, self.heads, -1)
        keys, values = pairs.permute(2, 0, 3, 1, 4).unbind(0)
        return AttentionState(own(keys), own(values), mask)

    def forward(self, vectors: Tensor, source: AttentionState) -> Tensor:
        """vectors (B, T, D) -> what was found in the source (B, T, D)."""
        batch, new, width = vectors.shape
        queries = self.query(vectors).view(batch, new, self.heads, -1).transpose(1, 2)
        seen = looked_at(source.visible)
        mask = None if seen is None else seen[:, None, None]
        if self.alignment.watched:
            scores = queries @ source.keys.transpose(2, 3) * queries.shape[3] ** -0.5
            if mask is not None:
                scores = scores.masked_fill(~mask, -float("inf"))
            self.alignment(scores.softmax(-1))  # (B, H, T, S)
        found = F.scaled_dot_product_attention(
            queries,
            source.keys,
            source.values,
            attn_mask=mask,
            dropout_p=self.dropout if self.training else 0.0,
        )
        projected: Tensor = self.out(found.transpose(1, 2).reshape(batch, new, width))
        return projected


class Part(nn.Module):
    """What surrounds attention and feed-forward alike: a sum, a norm before or after, dropout."""

    def __init__(self, config: EncoderStack) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.width)
        self.before, self.dropout = config.norm == "pre", config.dropout

    def enter(self, vectors: Tensor) -> Tensor:
        """What the part works on."""
        return self.norm(vectors) if self.before else vectors

    def leave(self, vectors: Tensor, found: Tensor) -> Tensor:
        """What it gave, joined to what there was."""
        if self.training and self.dropout:
            found = F.dropout(found, self.dropout)
        return vectors + found if self.before else self.norm(vectors + found)


class FeedForward(nn.Module):
    """W₂ max(0, W₁ x + b₁) + b₂ (Vaswani 2017, eq. 2)."""

    def __init__(self, config: EncoderStack) -> None:
        super().__init__()
        self.expand = nn.Linear(config.width, config.mlp_ratio * config.width)
        self.contract = nn.Linear(config.mlp_ratio * config.width, config.width)

    def forward(self, vectors: Tensor) -> Tensor:
        """vectors (B, T, D) -> (B, T, D)."""
        thought: Tensor = self.contract(F.relu(self.expand(vectors)))
        return thought


class EncoderLayer(nn.Module):
    """Attention over the whole source, or over its past if ``causal``; then feed-forward."""

    def __init__(self, config: EncoderStack, causal: bool = False) -> None:
        super().__init__()
        self.attention, self.around_attention = FullAttention(config, causal), Part(config)
        self.forth, self.around_forth = FeedForward(config), Part(config)

    def forward(
        self, vectors: Tensor, mask: Tensor | None, rotation: Rotation | None = None
    ) -> Tensor:
        """vectors (B, S, D) -> vectors (B, S, D)."""
        around = self.around_attention
        vectors = around.leave(vectors, self.attention(around.enter(vectors), mask, rotation))
        around = self.around_forth
        return around.leave(vectors, self.forth(around.enter(vectors)))


class DecoderLayer(nn.Module):
    """Attention over the target so far, then over the source, then feed-forward."""

    def __init__(self, config: EncoderDecoder) -> None:
        super().__init__()
        self.attention = SelfAttention(config.width, config.heads, ENDLESS, config.dropout)
        self.around_attention = Part(config)
        self.cross, self.around_cross = CrossAttention(config), Part(config)
        self.forth, self.around_forth = FeedForward(config), Part(config)

    @property
    def wants(self) -> Wanted:
        """The state that it can go on from."""
        pair = self.attention.wants
        return Wanted(CrossState, inside={"past": pair, "source": pair})

    def forward(
        self, vectors: Tensor, state: CrossState, context: Context
    ) -> tuple[Tensor, CrossState]:
        """vectors (B, T, D) -> vectors (B, T, D), and the state with T tokens more."""
        around = self.around_attention
        found, past = self.attention(around.enter(vectors), state.past, context)
        vectors = around.leave(vectors, found)
        around = self.around_cross
        vectors = around.leave(vectors, self.cross(around.enter(vectors), state.source))
        around = self.around_forth
        vectors = around.leave(vectors, self.forth(around.enter(vectors)))
        return vectors, CrossState(past, state.source)


class EncoderDecoderModel(SourceModel):
    """Layers that read the source whole, and layers that speak."""

    config: EncoderDecoder

    def __init__(self, config: EncoderDecoder) -> None:
        decoder = [DecoderLayer(config) for _ in range(config.layers)]
        positions = Positions("sinusoidal", config.width)
        # With the norm after each sum, what leaves the last layer is normalised already.
        super().__init__(config, decoder, positions, norm=config.norm == "pre")
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.encoder_norm = nn.LayerNorm(config.width) if config.norm == "pre" else nn.Identity()
        for module in (*self.encoder.modules(), *self.layers.modules()):
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def remember(self, vectors: Tensor, mask: Tensor | None) -> tuple[State, ...]:
        """Keys and values of every source word, for every layer; no target token yet."""
        for layer in self.encoder:
            vectors = layer(vectors, mask)
        vectors = self.encoder_norm(vectors)
        states = []
        for layer in self.layers:
            cross: Any = layer.cross
            source = cross.remember(vectors, mask)
            none = source.keys[:, :, :0]
            states.append(CrossState(AttentionState(none, none), source))
        return tuple(states)


def build(config: EncoderDecoder) -> EncoderDecoderModel:
    """Build the model that a config describes."""
    check_size(config)
    return EncoderDecoderModel(config)
