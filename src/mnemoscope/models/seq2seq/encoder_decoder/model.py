"""The Transformer of "Attention is all you need": an encoder, and a decoder that attends to it.

Shapes: B rows, S source words, T target tokens, D width, H heads, E = D / H.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from mnemoscope.memories.heads import join, softmax_attention, split
from mnemoscope.memories.layer import Context, Tap
from mnemoscope.memories.positions import Positions
from mnemoscope.memories.shapes import Wanted
from mnemoscope.memories.state import State, own
from mnemoscope.memories.transformer.attention import SelfAttention
from mnemoscope.memories.transformer.state import AttentionState
from mnemoscope.models.encoder.layers import EncoderLayer, FeedForward, Part, read
from mnemoscope.models.seq2seq.cross_attention import CrossState, attended
from mnemoscope.models.seq2seq.encoder_decoder.config import EncoderDecoder
from mnemoscope.models.seq2seq.source import SourceModel

# A sentence is attended to whole, however long it is.
ENDLESS = 1 << 40


class CrossAttention(nn.Module):
    """Target tokens attend to the source, whose keys and values are made once."""

    def __init__(self, config: EncoderDecoder) -> None:
        super().__init__()
        self.heads, self.dropout = config.heads, config.dropout
        self.query = nn.Linear(config.width, config.width)
        self.pairs = nn.Linear(config.width, 2 * config.width)  # keys and values
        self.out = nn.Linear(config.width, config.width)
        self.alignment = Tap()

    def remember(self, vectors: Tensor, mask: Tensor | None) -> AttentionState:
        """Encoded words (B, S, D) -> keys and values, each (B, H, S, E)."""
        keys, values = split(self.pairs(vectors), self.heads, 2)
        return AttentionState(own(keys), own(values), mask)

    def forward(self, vectors: Tensor, source: AttentionState) -> Tensor:
        """vectors (B, T, D) -> output (B, T, D)."""
        (queries,) = split(self.query(vectors), self.heads)
        seen = attended(source.visible)
        mask = None if seen is None else seen[:, None, None]
        if self.alignment.watched:
            scores = queries @ source.keys.transpose(2, 3) * queries.shape[3] ** -0.5
            if mask is not None:
                scores = scores.masked_fill(~mask, -float("inf"))
            self.alignment(scores.softmax(-1))  # (B, H, T, S)
        dropout = self.dropout if self.training else 0.0
        output = softmax_attention(queries, source.keys, source.values, mask, dropout=dropout)
        projected: Tensor = self.out(join(output))
        return projected


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
        """The state that it can continue from."""
        pair = self.attention.wants
        return Wanted(CrossState, inside={"past": pair, "source": pair})

    def forward(
        self, vectors: Tensor, state: CrossState, context: Context
    ) -> tuple[Tensor, CrossState]:
        """vectors (B, T, D) -> vectors (B, T, D), and the state with T tokens more."""
        around = self.around_attention
        output, past = self.attention(around.enter(vectors), state.past, context)
        vectors = around.leave(vectors, output)
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
        vectors = read(self.encoder, vectors, mask, recompute=self.config.recompute)
        vectors = self.encoder_norm(vectors)
        states = []
        for layer in self.layers:
            cross: Any = layer.cross
            source = cross.remember(vectors, mask)
            none = source.keys[:, :, :0]
            states.append(CrossState(AttentionState(none, none), source))
        return tuple(states)
