"""A causal model of `transformers` with a memory of all that it read before its window.

Shapes: T tokens of the segment, N read so far, V words.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.hooks import Seen, watch
from mnemoscope.activations.streams import slot_attention
from mnemoscope.activations.streams.blank import Blank
from mnemoscope.activations.streams.huggingface_attention import AttentionWatch, KeyBlank
from mnemoscope.activations.streams.page_stream import Step, device_of, find_part, pick_head
from mnemoscope.activations.streams.predictions import check_finite
from mnemoscope.activations.streams.views.attention import KEYS
from mnemoscope.activations.streams.views.signal import SignalView
from mnemoscope.activations.streams.views.view import Floats, Json, Part, Pick, mean_of_heads, slots
from mnemoscope.huggingface.attention_interface import intercept_attention
from mnemoscope.huggingface.infinite.memory import InfiniteMemory
from mnemoscope.huggingface.infinite.windows import WindowLayerState
from mnemoscope.memories.state import StreamState
from mnemoscope.models.model import Output


class InfinitePageStream:
    """Reads tokens (T,) at a time, at most to the end of a window."""

    def __init__(self, memory: InfiniteMemory) -> None:
        self.memory = memory.eval()
        gibbs = memory.options.density == "gibbs"
        self.signals = {
            layer: SignalView(
                memory.reader(index).longterm,
                layer,
                1,
                memory.reader(index).heads,
                f"{index}.query" if gibbs else f"{index}.longterm.maps",
            )
            for index, layer in enumerate(memory.reading_layers)
        }

    @torch.no_grad()
    def step(
        self, tokens: Tensor, state: StreamState | None, first: int, targets: Sequence[int]
    ) -> Step:
        """Read on, and say what was seen."""
        seen, parts, out = self._watched(tokens, state, first, mean_of_heads)
        check_finite(out.logits)
        step = Step(out.logits[0], out.state, out.state.nbytes, parts)
        for layer, after in enumerate(_blocks(out.state)):
            step.panels.append(_window(layer, after, first + len(tokens)))
            if after.slots is not None:
                step.panels.append(slot_attention.panel(layer, after.slots))
            if layer in self.signals:
                before = None if state is None else _blocks(state)[layer].signal
                view = self.signals[layer]
                step.panels += view.panels(seen, before, after.signal, first, len(tokens))
        return step

    @torch.no_grad()
    def head(
        self, tokens: Tensor, state: StreamState | None, first: int, part: str, head: int | None
    ) -> Floats:
        """Attention of one head, (T, N)."""
        return find_part(self._watched(tokens, state, first, pick_head(head))[1], part)

    @torch.no_grad()
    def read(
        self, tokens: Tensor, state: StreamState | None, history: Tensor, blank: Blank | None
    ) -> tuple[Tensor, StreamState]:
        """Read on, with some of the state taken away."""
        with ExitStack() as stack:
            if blank is not None and state is not None:
                state = self._blanked(state, blank, len(history))
                hider = KeyBlank(len(history), len(tokens), blank)
                stack.enter_context(intercept_attention(self.memory.base, hider))
            out = self.memory(tokens[None].to(device_of(self.memory.base)), state)
        check_finite(out.logits)
        return out.logits[0], out.state

    def how(self, blank: Blank) -> str:
        """How something is taken away."""
        return "hidden from attention, zero in the signal"

    def _blanked(self, state: StreamState, blank: Blank, read: int) -> StreamState:
        blocks = []
        for layer, one in enumerate(_blocks(state)):
            if one.signal is not None:
                one = replace(one, signal=self.signals[layer].blanked(one.signal, blank, read))
            if one.slots is not None:
                fewer = slot_attention.blanked(layer, one.slots, blank, self.memory.rotation)
                one = replace(one, slots=fewer)
            blocks.append(one)
        return replace(state, layers=(state.layers[0], *blocks))

    def _watched(
        self, tokens: Tensor, state: StreamState | None, first: int, pick: Pick
    ) -> tuple[Seen, list[Part], Output]:
        """Read on; a signal that nothing was written to is not read, and shows nothing."""
        before = {
            layer: _blocks(state)[layer].signal for layer in self.signals if state is not None
        }
        written = [
            layer for layer, one in before.items() if one is not None and bool(one.count.any())
        ]
        sites = [self.signals[layer].site for layer in written]
        attention = AttentionWatch(first, len(tokens), pick)
        if self.memory.slot_plans:
            attention = slot_attention.SlotWatch(first, len(tokens), pick, self.memory)
        seen: Seen = {}
        with ExitStack() as stack:
            if sites:
                seen = stack.enter_context(watch(self.memory.readers, sites))
            stack.enter_context(intercept_attention(self.memory.base, attention))
            out = self.memory(tokens[None].to(device_of(self.memory.base)), state)
        parts = attention.parts()
        for layer in written:
            parts += self.signals[layer].parts(seen, before[layer], first, len(tokens), pick)
        return seen, sorted(parts, key=lambda part: part.layer), out


def _blocks(state: StreamState) -> list[WindowLayerState]:
    return [layer for layer in state.layers if isinstance(layer, WindowLayerState)]


def _window(layer: int, state: WindowLayerState, read: int) -> Json:
    """Keys and values of the window so far, and what will be written when it is full."""
    size = sum(
        one.numel() * one.element_size()
        for one in (state.keys, state.values, state.inputs)
        if one is not None
    )
    held = np.arange(read - state.keys.shape[2], read)
    return slots(layer, f"layer {layer + 1}", KEYS, held, 1, None, size)
