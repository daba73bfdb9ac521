"""Models that read a text at once, both ways: encoders, ours and those of `transformers`.

Shapes: N tokens, V outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mnemoscope.activations.hooks import Seen, watch
from mnemoscope.activations.streams.blank import Blank
from mnemoscope.activations.streams.huggingface_attention import AttentionWatch
from mnemoscope.activations.streams.page_stream import Step, device_of, find_part, pick_head
from mnemoscope.activations.streams.predictions import check_finite
from mnemoscope.activations.streams.views.attention import attention, causal
from mnemoscope.activations.streams.views.view import (
    Floats,
    Part,
    Pick,
    mean_of_heads,
    visible_without,
)
from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.attention_interface import intercept_attention
from mnemoscope.models.encoder.layers import EncoderLayer
from mnemoscope.models.encoder.model import EncoderModel


def encoder_parts(layers: Sequence[Any], seen: Seen, path: str, pick: Pick) -> list[Part]:
    """Attention of encoder layers over all words, both ways unless causal."""
    found = []
    for number, layer in enumerate(layers):
        queries, keys = (seen[f"{path}.{number}.attention.{one}"] for one in ("queries", "keys"))
        length = queries.shape[2]
        allowed = torch.ones(length, length, dtype=torch.bool, device=queries.device)
        if layer.attention.causal:
            allowed = causal(length, length, None, queries.device)
        shares = attention(queries, keys, allowed, pick)
        heads = layer.attention.heads
        name = f"layer {number + 1}" if path == "layers" else f"encoder layer {number + 1}"
        found.append(Part(number, name, shares, heads))
    return found


def encoder_sites(layers: Sequence[nn.Module], path: str) -> list[str]:
    """Queries and keys of every layer."""
    numbers = range(len(layers)) if all(isinstance(one, EncoderLayer) for one in layers) else []
    return [f"{path}.{n}.attention.{one}" for n in numbers for one in ("queries", "keys")]


class EncoderPageStream:
    """Reads a text at once; nothing is carried on."""

    def __init__(self, model: Any) -> None:
        self.model = model

    @torch.no_grad()
    def step(self, tokens: Tensor, state: Any, first: int, targets: Sequence[int]) -> Step:
        """Read all of it, and say what was seen."""
        parts, logits = self._watched(tokens, mean_of_heads)
        check_finite(logits)
        return Step(logits, None, 0, parts)

    @torch.no_grad()
    def head(self, tokens: Tensor, state: Any, first: int, part: str, head: int | None) -> Floats:
        """Attention of one head, (N, N)."""
        return find_part(self._watched(tokens, pick_head(head))[0], part)

    @torch.no_grad()
    def read(
        self, tokens: Tensor, state: Any, history: Tensor, blank: Blank | None
    ) -> tuple[Tensor, Any]:
        """Read all of it; words that are blanked are attended to by none."""
        mask = None
        if blank is not None:
            if blank.tokens is None:
                raise UserError("an encoder carries no state: blank one of its tokens")
            gone = blank.hides(np.arange(len(tokens)), 1)
            mask = visible_without(None, tokens, gone).to(device_of(self.model))
        logits = self._call(tokens, mask)
        check_finite(logits)
        return logits, None

    def how(self, blank: Blank) -> str:
        """How something is taken away."""
        return "hidden from attention"

    def _watched(self, tokens: Tensor, pick: Pick) -> tuple[list[Part], Tensor]:
        if not isinstance(self.model, EncoderModel):
            log = AttentionWatch(0, len(tokens), pick)
            with intercept_attention(self.model, log):
                logits = self._call(tokens, None)
            return log.parts(), logits
        layers: Any = self.model.layers
        with watch(self.model, encoder_sites(layers, "layers")) as seen:
            logits = self._call(tokens, None)
        return encoder_parts(layers, seen, "layers", pick), logits

    def _call(self, tokens: Tensor, mask: Tensor | None) -> Tensor:
        """Logits (N, V); of a model without a head none, (0, 1)."""
        batch = tokens[None].to(device_of(self.model))
        if isinstance(self.model, EncoderModel):
            ours: Tensor = self.model(batch, mask=mask).logits[0]
            return ours
        out = self.model(input_ids=batch, attention_mask=None if mask is None else mask.long())
        theirs: Tensor = out.logits[0] if "logits" in out else torch.zeros(0, 1)
        return theirs
