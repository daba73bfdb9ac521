"""Transformer-XL, Compressive Transformer and ∞-former: memories in a row, each older than the one
before.

Shapes: T tokens of the segment, S keys, N tokens read so far.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mnemoscope.activations.hooks import Seen
from mnemoscope.activations.streams.blank import Blank
from mnemoscope.activations.streams.views.signal import SignalView
from mnemoscope.activations.streams.views.view import (
    Ints,
    Json,
    Part,
    Pick,
    slots,
    spread,
    visible_without,
)
from mnemoscope.memories.transformer_xl.attention import RelativeAttention
from mnemoscope.memories.transformer_xl.state import LayerInputs, LayerState

RECENT = "recent vectors"


class RelativeView:
    """Watches one layer with memories of recent vectors and of what came before them."""

    def __init__(self, attention: RelativeAttention, number: int) -> None:
        self.attention, self.number = attention, number
        self.rate = 1 if attention.compressor is None else attention.compressor.rate
        self.compressed = f"compressed, {self.rate} tokens each"
        self.signal = None
        if attention.signal is not None:
            gibbs = attention.signal.config.density == "gibbs"
            site = f"layers.{number}.attention.signal.maps"
            site = f"layer.{number}.attention.q" if gibbs else site
            self.signal = SignalView(attention.signal, number, self.rate, attention.heads, site)

    def sites(self) -> list[str]:
        """Attention to recent and compressed vectors, and to the signal if there is one."""
        path = f"layers.{self.number}.attention"
        return [f"{path}.maps", *([self.signal.site] if self.signal else [])]

    def parts(
        self, seen: Seen, before: LayerState | None, first: int, new: int, pick: Pick
    ) -> list[Part]:
        """Attention weights over compressed vectors, then recent and new tokens."""
        read = first + new
        weights = pick(seen[self.sites()[0]][0]).double().cpu().numpy()  # (T, S)
        recent = 0 if before is None else before.cache.length
        stands = np.arange(first - recent, read)
        each = np.ones_like(stands)
        if before is not None and before.compressed is not None:
            vectors = self._vectors(before, first)
            stands = np.concatenate((vectors, stands))
            each = np.concatenate((np.full_like(vectors, self.rate), each))
        shares = spread(weights, stands, each, read)
        found = [Part(self.number, f"layer {self.number + 1}", shares, self.attention.heads)]
        if self.signal is not None and before is not None:
            found += self.signal.parts(seen, before.signal, first, new, pick)
        return found

    def panels(
        self, seen: Seen, before: LayerState | None, after: LayerState, first: int, new: int
    ) -> list[Json]:
        """What each memory of the row holds."""
        read, name = first + new, f"layer {self.number + 1}"
        held = np.arange(read - after.cache.length, read)
        room: int | None = self.attention.config.mem_len
        found = [slots(self.number, name, RECENT, held, 1, room, after.cache.nbytes)]
        if after.compressed is not None:
            vectors = self._vectors(after, read)
            room = getattr(self.attention.config, "compressed_len", None)
            size = after.compressed.nbytes
            found.append(slots(self.number, name, self.compressed, vectors, self.rate, room, size))
        if self.signal is not None:
            old = None if before is None else before.signal
            found += self.signal.panels(seen, old, after.signal, first, new)
        return found

    def blanked(self, state: LayerState, blank: Blank, read: int) -> LayerState:
        """Vectors that go are hidden from attention."""
        if blank.concerns(self.number, RECENT):
            held = np.arange(read - state.cache.length, read)
            state = replace(state, cache=_without(state.cache, blank, held, 1))
        if state.compressed is not None and blank.concerns(self.number, self.compressed):
            vectors = self._vectors(state, read)
            fewer = _without(state.compressed, blank, vectors, self.rate)
            state = replace(state, compressed=fewer)
        if self.signal is not None and state.signal is not None:
            state = replace(state, signal=self.signal.blanked(state.signal, blank, read))
        return state

    def _vectors(self, state: LayerState, read: int) -> Ints:
        """The first token that each compressed vector stands for, (S,)."""
        assert state.compressed is not None
        count = state.compressed.length
        begin = read - state.cache.length - count * self.rate
        return begin + self.rate * np.arange(count)


def _without(state: LayerInputs, blank: Blank, first: Ints, each: int) -> LayerInputs:
    visible = visible_without(state.visible, state.inputs, blank.hides(first, each))
    return LayerInputs(state.inputs, visible)
