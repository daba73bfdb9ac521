"""A model of ours that reads a stream, segment by segment, while views watch its layers."""

from __future__ import annotations

from contextlib import ExitStack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnemoscope.activations.hooks import Seen, watch
from mnemoscope.core.errors import UserError
from mnemoscope.memories.recurrent import RecurrentLayer
from mnemoscope.memories.sparse.attention import SparseAttention
from mnemoscope.memories.transformer.attention import SelfAttention
from mnemoscope.memories.transformer_xl.attention import RelativeAttention
from mnemoscope.models.model import SequenceModel, StreamState
from mnemoscope.scope.frame import Step
from mnemoscope.scope.views.attention import AttentionView, SparseView
from mnemoscope.scope.views.plain import PlainView
from mnemoscope.scope.views.recurrent import RecurrentView
from mnemoscope.scope.views.relative import RelativeView
from mnemoscope.scope.views.view import View


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

    def __init__(self, model: SequenceModel, predicts: bool) -> None:
        self.model, self.predicts = model, predicts
        self.views = [view_of(layer, number) for number, layer in enumerate(model.layers)]
        self.state: StreamState | None = None
        self.read = 0
        self._said: Tensor | None = None  # (V,) logits after the last token

    @torch.no_grad()
    def step(self, tokens: Tensor) -> Step:
        """Read on, and say what was seen."""
        sites = sorted({site for view in self.views for site in view.sites()})
        device = next(self.model.parameters()).device
        before = self.state
        seen: Seen = {}
        with ExitStack() as stack:
            if sites:
                seen = stack.enter_context(watch(self.model, sites))
            out = self.model(tokens[None].to(device), before)
        check(out.logits)
        new = len(tokens)
        step = Step(out.state.nbytes, self._bits(out.logits, tokens))
        for number, view in enumerate(self.views):
            old = None if before is None else before.layers[number]
            step.add(view.show(seen, old, out.state.layers[number], self.read, new))
        self.state, self.read = out.state, self.read + new
        return step

    def _bits(self, logits: Tensor, tokens: Tensor) -> list[float | None]:
        if not self.predicts or logits.shape[1] != len(tokens):
            return [None] * len(tokens)
        bits = surprise(logits[0], tokens, self._said)
        self._said = logits[0, -1]
        return bits


def check(logits: Tensor) -> None:
    """Raise `UserError` when a model says nothing that can be drawn."""
    if not bool(logits.isfinite().all()):
        raise UserError("the model gives numbers that are not finite: has its training diverged?")


def surprise(logits: Tensor, tokens: Tensor, before: Tensor | None) -> list[float | None]:
    """Bits with which each token came: logits (T, V) after them, ``before`` (V,) the first."""
    said = logits[:-1] if before is None else torch.cat((before[None], logits[:-1]))
    targets = tokens[1:] if before is None else tokens
    nats = F.cross_entropy(said.float(), targets.to(said.device), reduction="none")
    bits: list[float | None] = [round(float(one), 3) for one in nats / torch.log(torch.tensor(2.0))]
    return [None, *bits] if before is None else bits
