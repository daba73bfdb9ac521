"""The compressor of a Compressive Transformer, and the losses that train it and nothing else.

Shapes: B rows, P pieces of C tokens, T tokens, D width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from mnemoscope.memories import compressive
from mnemoscope.memories.cache import Left

if TYPE_CHECKING:
    from mnemoscope.models.config import Squeezing


class Compressor(nn.Module):
    """Turns every ``rate`` tokens into one vector."""

    def __init__(self, config: Squeezing) -> None:
        super().__init__()
        self.kind, self.loss = config.compression, config.rebuilds
        self.rate, self.size = config.rate, config.compressed_len
        if self.kind == "convolution":
            self.convolution = nn.Linear(config.rate * config.width, config.width)
        if self.loss == "autoencoding":
            self.restore = nn.Linear(config.width, config.rate * config.width)

    def forward(self, pieces: Tensor, usage: Tensor | None = None) -> Tensor:
        """pieces (B, P, C, D), and for "most-used" their usage (B, P, C) -> (B, P, D)."""
        if self.kind == "mean":
            return compressive.mean(pieces)
        if self.kind == "max":
            return compressive.maximum(pieces)
        if self.kind == "most-used":
            assert usage is not None
            return compressive.most_used(pieces, usage)
        weights = self.convolution
        return compressive.convolution(pieces, weights.weight, weights.bias)

    def restored(self, left: Left) -> Tensor:
        """How badly pieces can be restored from their compressed vectors; trains the compressor."""
        pieces = left.tokens.detach()
        restored = self.restore(self(pieces)).view(pieces.shape)
        return compressive.autoencoding_loss(restored, pieces, left.present)

    def rebuilt(
        self,
        query: Tensor,
        pairs: Tensor,
        heads: int,
        inputs: Tensor,
        left: Left,
        mask: Tensor | None,
    ) -> Tensor:
        """How differently the segment would attend to pieces once they are compressed.

        query (D, D) and pairs (2 D, D) are the layer's projections, inputs (B, T, D) what it was
        given. All three are givens here: copies without a gradient, so that nothing but the
        compressor learns and nothing is frozen for good.
        """
        query, pairs, inputs = query.detach(), pairs.detach(), inputs.detach()
        pieces = left.tokens.detach()

        def look_at(vectors: Tensor) -> tuple[Tensor, Tensor]:
            batch, length, _ = vectors.shape
            both = nn.functional.linear(vectors, pairs).view(batch, length, 2, heads, -1)
            keys, values = both.permute(2, 0, 3, 1, 4).unbind(0)
            return keys, values

        batch, new, _ = inputs.shape
        queries = nn.functional.linear(inputs, query).view(batch, new, heads, -1).transpose(1, 2)
        with torch.no_grad():
            old = look_at(pieces.flatten(1, 2))
        return compressive.attention_loss(queries, old, look_at(self(pieces)), left.present, mask)
