"""Transformer-XL, Compressive Transformer and ∞-former: memories in a row, each older than the one
before.

Shapes: T tokens of the segment, S keys, N tokens read so far.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mnemoscope.activations.hooks import Seen
from mnemoscope.memories.transformer_xl.attention import RelativeAttention
from mnemoscope.scope.views.signal import SignalView
from mnemoscope.scope.views.view import Floats, Part, Shown, slots, spread


class RelativeView:
    """Watches one layer with memories of recent vectors and of what came before them."""

    def __init__(self, attention: RelativeAttention, number: int) -> None:
        self.attention, self.number = attention, number
        self.rate = 1 if attention.compressor is None else attention.compressor.rate
        self.signal = None
        if attention.signal is not None:
            self.signal = SignalView(attention.signal, number, self.rate)

    def sites(self) -> list[str]:
        """Attention to recent and compressed vectors, and to the signal if there is one."""
        path = f"layers.{self.number}.attention"
        return [f"{path}.maps", *(self.signal.sites() if self.signal else [])]

    def show(self, seen: Seen, before: Any, after: Any, first: int, new: int) -> Shown:
        """Attention weights, and what each memory of the row holds."""
        read = first + new
        maps = seen[self.sites()[0]]
        weights = maps[0].mean(0).double().cpu().numpy()  # (T, S)
        recent = 0 if before is None else before.cache.length
        compressed = 0
        if before is not None and before.compressed is not None:
            compressed = before.compressed.length
        shares = self._shares(weights, first - recent, compressed, read)
        name = f"layer {self.number + 1}"
        shown = Shown([Part(self.number, name, shares)])
        begins = read - after.cache.length
        shown.panels.append(
            slots(
                self.number,
                name,
                "recent vectors",
                np.arange(begins, read),
                1,
                self.attention.config.mem_len,
                after.cache.nbytes,
            )
        )
        if after.compressed is not None:
            count = after.compressed.length
            begin = begins - count * self.rate
            shown.panels.append(
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
            longterm = self.signal.show(seen, old, after.signal, first, new)
            shown.parts.extend(longterm.parts)
            shown.panels.extend(longterm.panels)
        return shown

    def _shares(self, weights: Floats, start: int, compressed: int, read: int) -> Floats:
        """Weights (T, S) over compressed vectors, then recent and new tokens, by token (T, N)."""
        plain = spread(weights[:, compressed:], np.arange(start, read), 1, read)
        if not compressed:
            return plain
        begin = start - compressed * self.rate
        positions = begin + self.rate * np.arange(compressed)
        return plain + spread(weights[:, :compressed], positions, self.rate, read)
