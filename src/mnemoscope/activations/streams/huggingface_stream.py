"""A causal model of `transformers` that reads a stream, alone or under documents by name.

Shapes: R rows, T tokens of the segment, N read so far, E entries, V words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.streams.blank import Blank
from mnemoscope.activations.streams.huggingface_attention import AttentionWatch, KeyBlank
from mnemoscope.activations.streams.page_stream import Step, device_of, find_part, pick_head
from mnemoscope.activations.streams.predictions import bits_of, check_finite, mean_bits
from mnemoscope.activations.streams.views.attention import KEYS
from mnemoscope.activations.streams.views.plain import TENSORS, tensors
from mnemoscope.activations.streams.views.view import (
    Floats,
    Json,
    listed,
    mean_of_heads,
    one_of,
    packed,
    slots,
)
from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.attention_interface import intercept_attention
from mnemoscope.huggingface.stream import DocumentStream, HuggingFaceState, HuggingFaceStream
from mnemoscope.memories.state import StreamState

if TYPE_CHECKING:
    from mnemoscope.huggingface.documents.memory import DocumentMemory

# Documents under which a text is read side by side, beside none and the chosen one.
MOST_DOCUMENTS = 14
ENTRIES = "document entries"
# Where a cache keeps what is held of tokens, such as layers.0.keys.
PAIRS = re.compile(r"(?:^|\.)(\d+)\.(keys|values)$")
NUMBERED = re.compile(r"(?:^|\.)(\d+)(?:\.|$)")


class HuggingFacePageStream:
    """Reads tokens (T,) at a time; with a document memory, under every document at once.

    Row 0 is the one that is shown, under ``document``; the next is the model without any.
    """

    def __init__(
        self, model: Any, memory: DocumentMemory | None = None, document: str | None = None
    ) -> None:
        self.model, self.memory = model, memory
        self.rows: list[str | None] = [document]
        self.call: HuggingFaceStream | DocumentStream
        if memory is None:
            self.call = HuggingFaceStream(model)
        else:
            others = [name for name in [None, *memory.names] if name != document]
            self.rows += others[: MOST_DOCUMENTS + 1]
            self.call = DocumentStream(memory, self.rows)

    @torch.no_grad()
    def step(
        self, tokens: Tensor, state: StreamState | None, first: int, targets: Sequence[int]
    ) -> Step:
        """Read on, and say what was seen."""
        used: list[Tensor] = []  # how far tokens activate entries, (R, T, E)
        watch = AttentionWatch(first, len(tokens), mean_of_heads)
        with ExitStack() as stack:
            stack.enter_context(intercept_attention(self.model, watch))
            if self.memory is not None:
                hook = self.memory.store.register_forward_hook(_activations(used))
                stack.callback(hook.remove)
            out = self.call(self._batch(tokens), state)
        check_finite(out.logits)
        size = out.state.nbytes // len(self.rows)
        step = Step(out.logits[0], out.state, size, watch.parts())
        step.panels += _held(out.state, first + len(tokens))
        if used:
            bits = [mean_bits(bits_of(row, targets)) for row in out.logits]
            entries = torch.cat([one[0] for one in used])
            step.panels.insert(0, self._entries(entries, bits))
        return step

    @torch.no_grad()
    def head(
        self, tokens: Tensor, state: StreamState | None, first: int, part: str, head: int | None
    ) -> Floats:
        """Attention of one head, (T, N)."""
        watch = AttentionWatch(first, len(tokens), pick_head(head))
        with intercept_attention(self.model, watch):
            self.call(self._batch(tokens), state)
        return find_part(watch.parts(), part)

    @torch.no_grad()
    def read(
        self, tokens: Tensor, state: StreamState | None, history: Tensor, blank: Blank | None
    ) -> tuple[Tensor, StreamState]:
        """Read on, with some of the state taken away."""
        with ExitStack() as stack:
            hider, before = None, state
            if blank is not None and state is not None:
                state = self._blanked(state, blank)
                hider = KeyBlank(len(history), len(tokens), blank)
                stack.enter_context(intercept_attention(self.model, hider))
                if self.memory is not None and blank.store == ENTRIES:
                    hook = self.memory.store.register_forward_pre_hook(_closed(blank.unit))
                    stack.callback(hook.remove)
            out = self.call(self._batch(tokens), state)
        entries = blank is not None and blank.store == ENTRIES
        if hider is not None and not (entries or hider.fed) and state is before:
            raise UserError("the attention of this model cannot be reached: nothing was blanked")
        check_finite(out.logits)
        return out.logits[0], out.state

    def how(self, blank: Blank) -> str:
        """How something is taken away."""
        return "closed for this document" if blank.store == ENTRIES else "hidden from attention"

    def _batch(self, tokens: Tensor) -> Tensor:
        return tokens.to(device_of(self.model)).expand(len(self.rows), -1)

    def _blanked(self, state: StreamState, blank: Blank) -> StreamState:
        """Recurrent tensors set to zero; of keys and values none, they are hidden instead."""
        held = state.layers[-1]
        assert isinstance(held, HuggingFaceState)
        kept = [*held.leaves]
        for number, path in enumerate(held.paths):
            found = NUMBERED.search(path)
            layer = int(found[1]) if found else 0
            if PAIRS.search(path) or path in held.shared or not blank.concerns(layer, TENSORS):
                continue
            if blank.tokens is not None or blank.unit is not None:
                raise UserError(
                    "nobody knows where this memory keeps what: blank the layer or the whole state"
                )
            kept[number] = torch.zeros_like(kept[number])
        if all(new is old for new, old in zip(kept, held.leaves, strict=True)):
            return state
        return replace(state, layers=(*state.layers[:-1], replace(held, leaves=tuple(kept))))

    def _entries(self, used: Tensor, bits: list[float | None]) -> Json:
        """Which entries documents open and tokens activate, and the loss under each document."""
        memory = self.memory
        assert memory is not None
        document = self.rows[0]
        selection = memory.selection().double().cpu()
        sizes = memory.store.values.double().norm(dim=0).cpu()  # (E,)
        used = used.double().cpu().abs() * sizes  # (T, E)
        opened = torch.zeros(len(sizes), dtype=torch.float64)
        if document is not None:
            opened = selection[memory.names.index(document)]
        shown = memory.names[: MOST_DOCUMENTS + 1]
        return {
            "kind": "entries",
            "layer": memory.index,
            "title": ENTRIES,
            "document": document,
            "documents": shown,
            "selection": packed(selection[: len(shown)].numpy()),
            "used": packed(used.T.numpy()),
            "added": listed((used * opened.abs()).mean(0).numpy()),
            "losses": [
                {"name": name, "bits": one} for name, one in zip(self.rows, bits, strict=True)
            ],
            "bytes": (memory.options.key_dim * memory.store.keys.element_size()),
        }


def _held(state: StreamState, read: int) -> list[Json]:
    """A panel per layer that keeps keys and values; one list of tensors for all the rest."""
    held = state.layers[-1]
    assert isinstance(held, HuggingFaceState)
    layers: dict[int, list[Tensor]] = {}
    others = []
    for path, leaf in zip(held.paths, held.leaves, strict=True):
        found = PAIRS.search(path)
        if found and leaf.dim() == 4:
            layers.setdefault(int(found[1]), []).append(leaf[:1])
        elif path not in held.shared:
            others.append((path, leaf[:1]))
    panels = []
    for number, pair in layers.items():
        positions = np.arange(read - pair[0].shape[2], read)
        size = sum(one.numel() * one.element_size() for one in pair)
        panels.append(slots(number, f"layer {number + 1}", KEYS, positions, 1, None, size))
    return [*panels, tensors(0, others)] if others else panels


def _activations(found: list[Tensor]) -> Any:
    def after(store: Any, inputs: Any, output: Any) -> None:
        found.append(store.activations(inputs[0]).detach())

    return after


def _closed(unit: int | None) -> Any:
    """A hook that closes one entry of a document memory, or all of them."""

    def before(store: Any, inputs: Any) -> Any:
        hidden, chosen = inputs
        return hidden, torch.zeros_like(chosen) if unit is None else one_of(chosen, 1, unit)

    return before
