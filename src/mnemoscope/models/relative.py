"""Attention by distance over a cache (Transformer-XL), and what becomes of what leaves it.

Shapes: B rows, T new tokens, S tokens looked at, D width, H heads, E = D / H.

Memories stand in a row and each takes what the one before it lets go: the cache of the last
tokens, then compressed vectors, then a signal of fixed size. A config says which of them exist.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mnemoscope.memories.cache import CacheState, Left, append, attend, weights
from mnemoscope.memories.continuous import ContinuousState
from mnemoscope.memories.shapes import Wanted
from mnemoscope.memories.state import State
from mnemoscope.models.compressor import Compressor
from mnemoscope.models.config import Infinite, Relative, Squeezing
from mnemoscope.models.longterm import LongTerm
from mnemoscope.models.model import Context, Tap, show
from mnemoscope.models.positions import waves


@dataclass(frozen=True)
class LayerState(State):
    """Of one layer: the last tokens, compressed vectors of those before, a signal of all older."""

    cache: CacheState
    compressed: CacheState | None = None
    signal: ContinuousState | None = None


class RelativeAttention(nn.Module):
    """Multi-head attention of a segment over itself and what its memories hold."""

    def __init__(self, config: Relative) -> None:
        super().__init__()
        width, heads = config.width, config.heads
        self.config, self.heads = config, heads
        # No biases: those of the queries are the two below, those of keys would change no score.
        self.query = nn.Linear(width, width, bias=False)
        self.pairs = nn.Linear(width, 2 * width, bias=False)  # keys and values
        self.distance = nn.Linear(width, width, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(heads, width // heads))
        self.position_bias = nn.Parameter(torch.zeros(heads, width // heads))
        self.out = nn.Linear(width, width)
        self.compressor = None
        if isinstance(config, Squeezing) and config.compressed_len > 0:
            self.compressor = Compressor(config)
        self.queries, self.keys = Tap(), Tap()
        self.looks = Tap()  # attention weights (B, H, T, S), computed when somebody looks
        self.signal = LongTerm(config) if isinstance(config, Infinite) else None

    @property
    def wants(self) -> Wanted:
        """The state that it can go on from."""
        queue = Wanted(CacheState, {"D": self.config.width})
        inside = {"cache": queue}
        if self.compressor is not None:
            inside["compressed"] = queue
        if self.signal is not None:
            inside["signal"] = self.signal.wants
        given = {name: name in inside for name in ("compressed", "signal")}
        return Wanted(LayerState, inside=inside, given=given)

    def forward(
        self, vectors: Tensor, state: LayerState | None, context: Context
    ) -> tuple[Tensor, LayerState]:
        """vectors (B, T, D) -> what was found (B, T, D), and the memories after the segment."""
        batch, new, width = vectors.shape
        if state is None:
            state = self._fresh(vectors)
        cache = append(state.cache, vectors, context.mask)
        seen = cache
        if state.compressed is not None:
            seen = append(state.compressed, cache.inputs, cache.visible)
        queries = self.query(vectors).view(batch, new, self.heads, -1).transpose(1, 2)
        pairs = self.pairs(seen.inputs).view(batch, seen.length, 2, self.heads, -1)
        keys, values = pairs.permute(2, 0, 3, 1, 4).unbind(0)  # each (B, H, S, E)
        show(self.queries, queries)
        show(self.keys, keys)
        apart = torch.arange(seen.length - 1, -1, -1, device=vectors.device)
        distances = self.distance(waves(apart, width).to(vectors.dtype))
        distances = distances.view(seen.length, self.heads, -1).transpose(0, 1)
        biases = self.content_bias, self.position_bias
        dropout = self.config.dropout if self.training else 0.0
        found = attend(queries, keys, values, distances, *biases, seen.visible, dropout)
        found = self.out(found.transpose(1, 2).reshape(batch, new, width))
        signal = state.signal
        if self.signal is not None and signal is not None:
            recalled, signal = self.signal(queries, signal, context)
            found = found + recalled
        used = None
        asks_usage = self.compressor is not None and self.compressor.kind == "most-used"
        if asks_usage or self.looks.watched:
            looks = self.looks(weights(queries, keys, distances, *biases, seen.visible))
            if context.mask is not None:
                looks = looks * context.mask[:, None, :, None]
            used = looks.sum((1, 2))[:, seen.length - cache.length :] if asks_usage else None
        return found, self._pass_on(vectors, context, cache, state.compressed, signal, used)

    def _fresh(self, vectors: Tensor) -> LayerState:
        nothing = CacheState(vectors[:, :0])
        compressed = None if self.compressor is None else nothing
        signal = None if self.signal is None else self.signal.fresh(len(vectors))
        return LayerState(nothing, compressed, signal)

    def _pass_on(
        self,
        inputs: Tensor,
        context: Context,
        cache: CacheState,
        compressed: CacheState | None,
        signal: ContinuousState | None,
        used: Tensor | None,
    ) -> LayerState:
        """Shorten every memory to its size, each handing what is too much to the next."""
        left: Left | None = None
        if self.compressor is not None and compressed is not None:
            cache, left = self._leave(cache, used)
            if left is not None:
                compressed = self._compress(inputs, context, compressed, left, used is not None)
            if self.signal is None:
                compressed = compressed.last(self.compressor.size)
            else:
                compressed, left = compressed.leave(self.compressor.size, self.signal.chunk)
        elif self.signal is not None:
            cache, left = cache.leave(self.config.mem_len, self.signal.chunk)
        else:
            cache = cache.last(self.config.mem_len)
        if self.signal is not None and signal is not None and left is not None:
            for number, tokens in enumerate(left.tokens.unbind(1)):
                rows = None if left.present is None else left.present[:, number]
                signal = self.signal.write(signal, tokens, rows)
        return LayerState(cache, compressed, signal)

    def _leave(self, cache: CacheState, used: Tensor | None) -> tuple[CacheState, Left | None]:
        assert self.compressor is not None
        if used is None:
            return cache.leave(self.config.mem_len, self.compressor.rate)
        # How much a token was used travels with it as one more coordinate.
        marked = torch.cat((cache.inputs, used[:, :, None].to(cache.inputs.dtype)), 2)
        kept, left = CacheState(marked, cache.visible).leave(
            self.config.mem_len, self.compressor.rate
        )
        return CacheState(kept.inputs[:, :, :-1], kept.visible), left

    def _compress(
        self, inputs: Tensor, context: Context, compressed: CacheState, left: Left, marked: bool
    ) -> CacheState:
        assert self.compressor is not None
        if marked:
            squeezed = self.compressor(left.tokens[..., :-1], left.tokens[..., -1])
        else:
            squeezed = self.compressor(left.tokens)
            if self.training and torch.is_grad_enabled():
                self._train_compressor(inputs, context, left)
        return append(compressed, squeezed, left.present)

    def _train_compressor(self, inputs: Tensor, context: Context, left: Left) -> None:
        assert self.compressor is not None
        if self.compressor.loss == "autoencoding":
            context.add_loss("autoencoding", self.compressor.restored(left))
        elif self.compressor.loss == "attention":
            weights = self.query.weight, self.pairs.weight
            loss = self.compressor.rebuilt(*weights, self.heads, inputs, left, context.mask)
            context.add_loss("attention rebuilt", loss)
