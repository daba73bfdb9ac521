"""Translators: what an encoder remembers of a source, and what each word of the target attends to.

Shapes: S source words, T tokens of the target, N = S + T, V outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mnemoscope.activations.hooks import Seen, watch
from mnemoscope.activations.streams.blank import Blank, emptied
from mnemoscope.activations.streams.page_stream import Step, device_of, find_part, pick_head
from mnemoscope.activations.streams.predictions import check_finite
from mnemoscope.activations.streams.views.attention import KEYS, attention, causal, without_keys
from mnemoscope.activations.streams.views.plain import TENSORS, tensors
from mnemoscope.activations.streams.views.view import (
    Floats,
    Json,
    Part,
    Pick,
    mean_of_heads,
    slots,
    spread,
    visible_without,
)
from mnemoscope.core.errors import UserError
from mnemoscope.memories.state import State, StreamState
from mnemoscope.memories.transformer.state import AttentionState
from mnemoscope.models.seq2seq.cross_attention import AttentiveState, CrossState, SourceState
from mnemoscope.models.seq2seq.source import SourceModel
from mnemoscope.scope.encoder_stream import encoder_parts, encoder_sites

SOURCE = "source tokens"


class TranslatorPageStream:
    """Reads the source as the first segment, and the target as the second."""

    def __init__(self, model: SourceModel) -> None:
        self.model = model
        self.source = 0  # how many words

    @torch.no_grad()
    def step(
        self, tokens: Tensor, state: StreamState | None, first: int, targets: Sequence[int]
    ) -> Step:
        """Read the source, or say the target."""
        parts, logits, after = self._watched(tokens, state, mean_of_heads)
        check_finite(logits)
        step = Step(logits, after, after.nbytes, parts)
        for number, layer in enumerate(after.layers):
            step.panels += self._panels(number, layer, first + len(tokens))
        return step

    @torch.no_grad()
    def head(
        self, tokens: Tensor, state: StreamState | None, first: int, part: str, head: int | None
    ) -> Floats:
        """Attention of one head, (T, N)."""
        return find_part(self._watched(tokens, state, pick_head(head))[0], part)

    @torch.no_grad()
    def read(
        self, tokens: Tensor, state: StreamState | None, history: Tensor, blank: Blank | None
    ) -> tuple[Tensor, StreamState]:
        """Read on, with some of what the encoder remembers taken away."""
        if state is None:
            return self._nothing, self._encoded(tokens)
        if blank is not None:
            layers = [
                self._blanked(layer, number, blank, len(history))
                for number, layer in enumerate(state.layers)
            ]
            state = replace(state, layers=tuple(layers))
        out = self.model(tokens[None].to(device_of(self.model)), state)
        check_finite(out.logits)
        return out.logits[0], out.state

    def how(self, blank: Blank) -> str:
        """How something is taken away."""
        return "hidden from attention, or set to zero"

    def _watched(
        self, tokens: Tensor, state: StreamState | None, pick: Pick
    ) -> tuple[list[Part], Tensor, StreamState]:
        if state is None:
            encoder: Any = self.model.encoder
            layers = [*encoder] if isinstance(encoder, nn.ModuleList) else []
            seen: Seen = {}
            with ExitStack() as stack:
                if layers:
                    seen = stack.enter_context(watch(self.model, encoder_sites(layers, "encoder")))
                after = self._encoded(tokens)
            return encoder_parts(layers, seen, "encoder", pick), self._nothing, after
        aligned = [path for path, _ in self.model.named_modules() if path.endswith("alignment")]
        selves = [
            f"decoder.layer.{number}.attention.{one}"
            for number, layer in enumerate(state.layers)
            if isinstance(layer, CrossState)
            for one in "qk"
        ]
        with ExitStack() as stack:
            seen = stack.enter_context(watch(self.model, [*aligned, *selves])) if aligned else {}
            out = self.model(tokens[None].to(device_of(self.model)), state)
        return self._parts(seen, aligned, state, len(tokens), pick), out.logits[0], out.state

    def _parts(
        self,
        seen: Seen,
        aligned: Sequence[str],
        state: StreamState,
        new: int,
        pick: Pick,
    ) -> list[Part]:
        """Attention to the source and, of a Transformer, to the target so far."""
        found = []
        said = max((o.past.length for o in state.layers if isinstance(o, CrossState)), default=0)
        read = self.source + said + new
        for number, path in enumerate(aligned):
            weights = seen[path][0]
            shares = pick(weights).double().cpu().numpy()
            spread_out = spread(shares, np.arange(self.source), 1, read)
            name = f"layer {number + 1} · source"
            found.append(Part(number, name, spread_out, len(weights)))
        for number, layer in enumerate(state.layers):
            if not isinstance(layer, CrossState):
                continue
            queries, keys = (seen[f"decoder.layer.{number}.attention.{one}"] for one in "qk")
            keys = torch.cat((layer.past.keys, keys), 2)
            allowed = causal(new, keys.shape[2], None, keys.device)
            shares = attention(queries, keys, allowed, pick)
            spread_out = spread(shares, np.arange(self.source, read), 1, read)
            name = f"layer {number + 1} · target"
            found.append(Part(number, name, spread_out, queries.shape[1]))
        return found

    def _panels(self, number: int, state: State, read: int) -> list[Json]:
        name = f"layer {number + 1}"
        if isinstance(state, CrossState):
            held, size = np.arange(self.source), state.source.nbytes
            words = slots(number, f"{name} · source", SOURCE, held, 1, None, size)
            said = np.arange(self.source, read)[: state.past.length]
            past = slots(number, f"{name} · target", KEYS, said, 1, None, state.past.nbytes)
            return [words, past] if len(said) else [words]
        if isinstance(state, AttentiveState | SourceState):
            own = state.words if isinstance(state, AttentiveState) else state
            held = np.arange(self.source)
            # Of several layers only one attends, whichever its number.
            words = slots(number, "layer 1 · source", SOURCE, held, 1, None, own.nbytes)
            if own is state:
                return [words]
            rest = [(n, t) for n, t in state.tensors() if not n.startswith("words.")]
            return [words, tensors(number, rest)]
        return [tensors(number, state.tensors())]

    def _blanked(self, state: Any, number: int, blank: Blank, read: int) -> Any:
        if isinstance(state, CrossState):
            past, source = state.past, state.source
            if blank.concerns(number, KEYS):
                past = without_keys(past, blank, read)
            if blank.concerns(number, SOURCE):
                source = self._hidden(source, source.keys, blank)
            return CrossState(past, source)
        if isinstance(state, SourceState):
            concerned = blank.concerns(number, SOURCE)
            return self._hidden(state, state.vectors, blank) if concerned else state
        if isinstance(state, AttentiveState) and blank.store == SOURCE:
            return replace(state, words=self._blanked(state.words, number, blank, read))
        if not blank.concerns(number, TENSORS):
            return state
        if blank.tokens is not None:
            raise UserError("this state is one vector: blank the layer or the whole state")
        return emptied(state)

    def _hidden(self, state: Any, like: Tensor, blank: Blank) -> Any:
        """Source words that none attends to; without any word, zeros."""
        gone = blank.hides(np.arange(self.source), 1)
        if gone.all():
            return emptied(state)
        visible = visible_without(state.visible, like, gone)
        if isinstance(state, AttentionState):
            return AttentionState(state.keys, state.values, visible)
        return replace(state, visible=visible)

    def _encoded(self, tokens: Tensor) -> StreamState:
        self.source = len(tokens)
        return self.model.encode(tokens[None].to(device_of(self.model)))

    @property
    def _nothing(self) -> Tensor:
        """Logits while a source is read."""
        return torch.zeros(0, self.model.readout.out_features)
