"""Transformer-XL, Compressive Transformer and ∞-former: memories in a row, each older than the one
before.

Shapes: T tokens of the segment, S places looked at, N tokens read so far.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mnemoscope.activations.hooks import Seen
from mnemoscope.memories.transformer_xl.attention import RelativeAttention
from mnemoscope.scope.views.signal import SignalView
from mnemoscope.scope.views.view import Floats, Looked, Part, slots, spread


class RelativeView:
    """Watches one layer with a cache and what comes after it."""

    def __init__(self, attention: RelativeAttention, number: int) -> None:
        self.attention, self.number = attention, number
        self.rate = 1 if attention.compressor is None else attention.compressor.rate
        self.signal = None
        if attention.signal is not None:
            self.signal = SignalView(attention.signal, number, self.rate)

    def sites(self) -> list[str]:
        """Where heads look in cache and compressed vectors, and in the signal if there is one."""
        path = f"layers.{self.number}.attention"
        return [f"{path}.maps", *(self.signal.sites() if self.signal else [])]

    def look(self, seen: Seen, before: Any, after: Any, first: int, new: int) -> Looked:
        """Where heads looked, and what each memory of the row holds."""
        read = first + new
        looks = seen[f"layers.{self.number}.attention.maps"]
        weights = looks[0].mean(0).double().cpu().numpy()  # (T, S)
        cached = 0 if before is None else before.cache.length
        squeezed = 0
        if before is not None and before.compressed is not None:
            squeezed = before.compressed.length
        shares = self._shares(weights, first - cached, squeezed, read)
        name = f"layer {self.number + 1}"
        found = Looked([Part(self.number, name, shares)])
        recent = read - after.cache.length
        found.panels.append(
            slots(
                self.number,
                name,
                "cache",
                np.arange(recent, read),
                1,
                self.attention.config.mem_len,
                after.cache.nbytes,
            )
        )
        if after.compressed is not None:
            count = after.compressed.length
            begin = recent - count * self.rate
            found.panels.append(
                slots(
                    self.number,
                    name,
                    f"compressed, {self.rate} tokens each",
                    begin + self.rate * np.arange(count),
                    self.rate,
                    getattr(self.attention.config, "compressed_len", None),
                    after.compressed.nbytes,
                )
            )
        if self.signal is not None:
            old = None if before is None else before.signal
            recalled = self.signal.look(seen, old, after.signal, first, new)
            found.parts.extend(recalled.parts)
            found.panels.extend(recalled.panels)
        return found

    def _shares(self, weights: Floats, start: int, squeezed: int, read: int) -> Floats:
        """Weights (T, S) over compressed vectors, then cached and new tokens, by token (T, N)."""
        plain = spread(weights[:, squeezed:], np.arange(start, read), 1, read)
        if not squeezed:
            return plain
        begin = start - squeezed * self.rate
        places = begin + self.rate * np.arange(squeezed)
        return plain + spread(weights[:, :squeezed], places, self.rate, read)
