"""The layer of Transformer-XL, and of the memories that stand behind its cache.

Shapes: B rows, T new tokens, S tokens attended to, D width, H heads, E = D / H.

Memories stand in a row and each takes what the one before it lets go: the cache of the last
tokens, then compressed vectors, then a signal of fixed size. A config says which of them exist.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mnemoscope.memories.heads import join, split
from mnemoscope.memories.layer import Context, Tap, show
from mnemoscope.memories.positions import waves
from mnemoscope.memories.shapes import Wanted
from mnemoscope.memories.transformer_xl.config import Relative
from mnemoscope.memories.transformer_xl.relative import attend, weights
from mnemoscope.memories.transformer_xl.state import LayerInputs, LayerState, append


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
        self.compressor = config.compressor()
        self.queries, self.keys = Tap(), Tap()
        self.maps = Tap()  # attention weights (B, H, T, S), computed when somebody looks
        self.signal = config.long_term()

    @property
    def wants(self) -> Wanted:
        """The state that it can continue from."""
        queue = Wanted(LayerInputs, {"D": self.config.width})
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
        """vectors (B, T, D) -> output (B, T, D), and the memories after the segment."""
        if state is None:
            state = self._fresh(vectors)
        cache, compressed, signal = state.cache, state.compressed, state.signal
        cache = append(cache, vectors, context.mask)
        seen = cache if compressed is None else append(compressed, cache.inputs, cache.visible)
        by_usage = self.compressor is not None and self.compressor.kind == "most-used"
        sticky = self.signal is not None and self.signal.config.sticky
        if context.silent and not (by_usage or sticky):  # no memory goes by attention
            output, usage = vectors, None
        else:
            output, queries, usage = self._attend(vectors, seen, context.mask, by_usage)
            if self.signal is not None and signal is not None:
                recalled, signal = self.signal(queries, signal, context)
                output = output + recalled

        # Every memory is shortened to its size and hands what is too much to the next.
        last, size = cache, self.config.mem_len
        if self.compressor is not None and compressed is not None:
            cache, last, left = self.compressor.take(cache, compressed, size, usage)
            size = self.compressor.size
            if left is not None and self.training and torch.is_grad_enabled():
                projections = self.query.weight, self.pairs.weight
                self.compressor.add_loss(context, left, vectors, *projections, self.heads)
        if self.signal is None or signal is None:
            last = last.last(size)
        else:
            last, left = last.leave(size, self.signal.chunk)
            if left is not None:
                for number, tokens in enumerate(left.tokens.unbind(1)):
                    rows = None if left.present is None else left.present[:, number]
                    signal = self.signal.write(signal, tokens, rows)
        if compressed is None:
            return output, LayerState(last, None, signal)
        return output, LayerState(cache, last, signal)

    def _fresh(self, vectors: Tensor) -> LayerState:
        nothing = LayerInputs(vectors[:, :0])
        compressed = None if self.compressor is None else nothing
        signal = None if self.signal is None else self.signal.fresh(len(vectors))
        return LayerState(nothing, compressed, signal)

    def _attend(
        self, vectors: Tensor, seen: LayerInputs, mask: Tensor | None, by_usage: bool
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Attention of the newest T tokens over all that is seen.

        Returns output (B, T, D), queries (B, H, T, E) and, if the compressor goes by it, the
        attention mass of every token, (B, S).
        """
        (queries,) = split(self.query(vectors), self.heads)
        keys, values = split(self.pairs(seen.inputs), self.heads, 2)  # each (B, H, S, E)
        show(self.queries, queries)
        show(self.keys, keys)
        apart = torch.arange(seen.length - 1, -1, -1, device=vectors.device)
        distances = self.distance(waves(apart, vectors.shape[2], vectors.dtype))
        distances = distances.view(seen.length, self.heads, -1).transpose(0, 1)
        biases = self.content_bias, self.position_bias
        dropout = self.config.dropout if self.training else 0.0
        output = attend(queries, keys, values, distances, *biases, seen.visible, dropout)
        output = self.out(join(output))
        if not (by_usage or self.maps.watched):
            return output, queries, None
        maps = self.maps(weights(queries, keys, distances, *biases, seen.visible))
        if mask is not None:
            maps = maps * mask[:, None, :, None]
        return output, queries, maps.sum((1, 2)) if by_usage else None
