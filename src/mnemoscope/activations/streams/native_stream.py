"""A model of ours that reads a stream, segment by segment, while views watch its layers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

import torch
from torch import Tensor, nn

from mnemoscope.activations.hooks import Seen, watch
from mnemoscope.activations.streams.blank import Blank
from mnemoscope.activations.streams.page_stream import Step, device_of, find_part, pick_head
from mnemoscope.activations.streams.predictions import check_finite
from mnemoscope.activations.streams.views.attention import AttentionView, SparseView
from mnemoscope.activations.streams.views.plain import PlainView
from mnemoscope.activations.streams.views.recurrent import RecurrentView
from mnemoscope.activations.streams.views.relative import RelativeView
from mnemoscope.activations.streams.views.view import Floats, View, mean_of_heads
from mnemoscope.memories.recurrent import RecurrentLayer
from mnemoscope.memories.sparse.attention import SparseAttention
from mnemoscope.memories.transformer.attention import SelfAttention
from mnemoscope.memories.transformer_xl.attention import RelativeAttention
from mnemoscope.models.model import Output, SequenceModel, StreamState


def view_of(layer: nn.Module, number: int) -> View:
    """What can watch a layer of this kind."""
    attention = getattr(layer, "attention", None)
    if isinstance(layer, RecurrentLayer):
        return RecurrentView(layer, number)
    if isinstance(attention, SelfAttention):
        return AttentionView(attention, number)
    if isinstance(attention, SparseAttention):
        return SparseView(attention, number)
    if isinstance(attention, RelativeAttention):
        return RelativeView(attention, number)
    return PlainView(number)


class NativePageStream:
    """Reads tokens (T,) at a time; what is carried is the model's own state and nothing else."""

    def __init__(self, model: SequenceModel) -> None:
        self.model = model
        self.views = [view_of(layer, number) for number, layer in enumerate(model.layers)]

    @torch.no_grad()
    def step(
        self, tokens: Tensor, state: StreamState | None, first: int, targets: Sequence[int]
    ) -> Step:
        """Read on, and say what was seen."""
        seen, out = self._watched(tokens, state, range(len(self.views)))
        check_finite(out.logits)
        step, new = Step(out.logits[0], out.state, out.state.nbytes), len(tokens)
        for number, view in enumerate(self.views):
            before = None if state is None else state.layers[number]
            step.parts += view.parts(seen, before, first, new, mean_of_heads)
            step.panels += view.panels(seen, before, out.state.layers[number], first, new)
        return step

    @torch.no_grad()
    def head(
        self, tokens: Tensor, state: StreamState | None, first: int, part: str, head: int | None
    ) -> Floats:
        """Attention of one head, (T, N)."""
        # A recurrent view would take tokens that it has read already for new ones.
        chosen = [n for n, view in enumerate(self.views) if not isinstance(view, RecurrentView)]
        seen, _ = self._watched(tokens, state, chosen)
        parts = []
        for number in chosen:
            before = None if state is None else state.layers[number]
            parts += self.views[number].parts(seen, before, first, len(tokens), pick_head(head))
        return find_part(parts, part)

    @torch.no_grad()
    def read(
        self, tokens: Tensor, state: StreamState | None, history: Tensor, blank: Blank | None
    ) -> tuple[Tensor, StreamState]:
        """Read on, with some of the state taken away."""
        if blank is not None and state is not None:
            state = self._blanked(state, history, blank)
        out = self.model(tokens[None].to(device_of(self.model)), state)
        check_finite(out.logits)
        return out.logits[0], out.state

    def how(self, blank: Blank) -> str:
        """How something is taken away."""
        if self._mixes:
            return "set to zero" if blank.tokens is None else "all other tokens are read again"
        return f"hidden from attention{', zero in the signal' if self.has_signal else ''}"

    @property
    def has_signal(self) -> bool:
        """Whether a layer has a signal, whose tokens are known to who watched all of it."""
        return any(getattr(view, "signal", None) is not None for view in self.views)

    @property
    def attends(self) -> bool:
        """Whether every layer attends to tokens that it holds."""
        return not any(isinstance(view, RecurrentView | PlainView) for view in self.views)

    @property
    def _mixes(self) -> bool:
        """Whether no token has a place of its own in the state."""
        return any(isinstance(view, RecurrentView) for view in self.views)

    def _blanked(self, state: StreamState, history: Tensor, blank: Blank) -> StreamState | None:
        if self._mixes and blank.tokens is not None:
            low, high = blank.tokens
            rest = torch.cat((history[: max(0, low)], history[high + 1 :]))
            if not len(rest):
                return None
            again: StreamState = self.model(rest[None].to(device_of(self.model))).state
            return again
        layers = zip(self.views, state.layers, strict=True)
        blanked = (view.blanked(layer, blank, len(history)) for view, layer in layers)
        return replace(state, layers=tuple(blanked))

    def _watched(
        self, tokens: Tensor, state: StreamState | None, chosen: Sequence[int]
    ) -> tuple[Seen, Output]:
        sites = sorted({site for number in chosen for site in self.views[number].sites()})
        seen: Seen = {}
        with ExitStack() as stack:
            if sites:
                seen = stack.enter_context(watch(self.model, sites))
            out = self.model(tokens[None].to(device_of(self.model)), state)
        return seen, out
