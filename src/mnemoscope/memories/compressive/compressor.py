"""The compressor of a Compressive Transformer, and the losses that train it and nothing else.

Shapes: B rows, P chunks of C tokens, T queries, S tokens in the cache, D width, H heads, E = D / H.

Every C tokens that leave the cache become one vector, and those wait in a second, longer queue
(Rae 2019). Chunks are always whole: a rest shorter than C stays in the cache until it is full.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnemoscope.memories.compressive.config import Compressing
from mnemoscope.memories.heads import split
from mnemoscope.memories.layer import Context
from mnemoscope.memories.transformer_xl.state import LayerInputs, Left, append

# Keys and values, each (B, H, S, E).
Pairs = tuple[Tensor, ...]


class Compressor(nn.Module):
    """Turns every ``rate`` tokens into one vector."""

    def __init__(self, config: Compressing) -> None:
        super().__init__()
        self.kind, self.loss = config.compression, config.rebuilds
        self.rate, self.size = config.rate, config.compressed_len
        if self.kind == "convolution":  # with kernel and stride C
            self.convolution = nn.Linear(config.rate * config.width, config.width)
        if self.loss == "autoencoding":
            self.restore = nn.Linear(config.width, config.rate * config.width)

    def forward(self, chunks: Tensor, usage: Tensor | None = None) -> Tensor:
        """chunks (B, P, C, D), and for "most-used" their attention mass (B, P, C) -> (B, P, D)."""
        if self.kind == "mean":
            return chunks.mean(2)
        if self.kind == "max":
            return chunks.amax(2)
        if self.kind == "most-used":
            assert usage is not None
            best = usage.argmax(2)[:, :, None, None].expand(-1, -1, 1, chunks.shape[3])
            return chunks.gather(2, best).squeeze(2)
        compressed: Tensor = self.convolution(chunks.flatten(2))
        return compressed

    def take(
        self, cache: LayerInputs, queue: LayerInputs, keep: int, usage: Tensor | None
    ) -> tuple[LayerInputs, LayerInputs, Left | None]:
        """Compress what a cache has beyond ``keep`` tokens into the queue; and what that was.

        usage (B, ≥ S) is the attention mass of the tokens; those of the cache come last.
        """
        if usage is None:
            cache, left = cache.leave(keep, self.rate)
        else:
            # How much a token was used travels with it as one more coordinate.
            used = usage[:, usage.shape[1] - cache.length :, None].to(cache.inputs.dtype)
            marked = LayerInputs(torch.cat((cache.inputs, used), 2), cache.visible)
            marked, left = marked.leave(keep, self.rate)
            cache = LayerInputs(marked.inputs[:, :, :-1], marked.visible)
        if left is None:
            return cache, queue, None
        chunks = left.tokens
        squeezed = self(chunks) if usage is None else self(chunks[..., :-1], chunks[..., -1])
        return cache, append(queue, squeezed, left.present), left

    def add_loss(
        self,
        context: Context,
        left: Left,
        inputs: Tensor,
        query: Tensor,
        pairs: Tensor,
        heads: int,
    ) -> None:
        """Ask for the loss that trains the compressor.

        inputs (B, T, D) are what the layer was given, query (D, D) and pairs (2 D, D) its
        projections. All are givens here: copies without a gradient, so that nothing but the
        compressor learns and nothing is frozen for good.
        """
        chunks = left.tokens.detach()
        if self.loss == "autoencoding":
            restored = self.restore(self(chunks)).view(chunks.shape)
            context.add_loss("autoencoding", autoencoding_loss(restored, chunks, left.present))
        elif self.loss == "attention":
            (queries,) = split(F.linear(inputs.detach(), query.detach()), heads)
            old, new = (
                split(F.linear(vectors, pairs.detach()), heads, 2)
                for vectors in (chunks.flatten(1, 2), self(chunks))
            )
            loss = attention_loss(queries, old, new, left.present, context.mask)
            context.add_loss("attention rebuilt", loss)


def attention_loss(
    queries: Tensor, old: Pairs, new: Pairs, present: Tensor | None, mask: Tensor | None
) -> Tensor:
    """Mean squared difference of attention over tokens and over what became of them.

    queries (B, H, T, E); keys and values of the tokens (B, H, P · C, E) and of the compressed
    (B, H, P, E); present (B, P) false where a row has no such chunk, mask (B, T) as ever. Positions
    play no part (Rae 2019, section 3.3). The caller detaches all that is not to be trained.
    """
    each = old[0].shape[2] // new[0].shape[2]
    seen_old = seen_new = None
    counts = torch.ones(queries.shape[0], queries.shape[2], device=queries.device)
    if present is not None:
        # A row without any chunk attends to nothing that exists and counts for nothing.
        some = present | ~present.any(1, keepdim=True)
        seen_new = some[:, None, None, :]
        seen_old = some.repeat_interleave(each, 1)[:, None, None, :]
        counts = counts * present.any(1, keepdim=True)
    if mask is not None:
        counts = counts * mask
    before = F.scaled_dot_product_attention(queries, old[0], old[1], attn_mask=seen_old)
    after = F.scaled_dot_product_attention(queries, new[0], new[1], attn_mask=seen_new)
    apart = (before - after).float().square().mean((1, 3))  # (B, T)
    return (apart * counts).sum() / counts.sum().clamp(min=1)


def autoencoding_loss(restored: Tensor, chunks: Tensor, present: Tensor | None) -> Tensor:
    """Mean squared difference of chunks (B, P, C, D) and what was restored from one vector each."""
    apart = (restored - chunks).float().square().mean((2, 3))  # (B, P)
    if present is None:
        return apart.mean()
    return (apart * present).sum() / present.sum().clamp(min=1)
