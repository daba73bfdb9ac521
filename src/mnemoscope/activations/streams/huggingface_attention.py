"""Attention layers of a model of `transformers`, one call of it: watched, or with keys hidden.

Shapes: R rows, H heads, T tokens fed, S keys, N tokens read so far. Row 0 is the one that is shown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mnemoscope.activations.streams.blank import Blank
from mnemoscope.activations.streams.views.attention import KEYS, attention, causal
from mnemoscope.activations.streams.views.view import Floats, Part, Pick, spread


@dataclass(frozen=True, eq=False)
class Call:
    """One call of an attention layer, whose keys are those of the last tokens before ``end``.

    allowed  (1, 1 or H, T, S), what tokens may attend to
    """

    layer: int
    end: int
    query: Tensor
    key: Tensor
    mask: Tensor | None
    allowed: Tensor
    scale: float | None


@dataclass(eq=False)
class Listener:
    """Called before every attention of a model that reads ``new`` tokens after ``first`` others.

    Layers are numbered in the order in which they are called.
    """

    first: int
    new: int
    fed: dict[nn.Module, int] = field(default_factory=dict, init=False)

    def __call__(
        self, module: nn.Module, query: Tensor, key: Tensor, mask: Tensor | None, options: Any
    ) -> Tensor | None:
        """The mask to use."""
        fed = self.fed[module] = self.fed.get(module, 0) + query.shape[2]
        # Some models read one token at a time, others read a few once more before new ones.
        end = self.first + min(fed, self.new)
        layer = list(self.fed).index(module)
        allowed = _allowed(module, query, key, mask, options)
        return self.hear(Call(layer, end, query, key, mask, allowed, options.get("scaling")))

    def hear(self, call: Call) -> Tensor | None:
        """What to do in one call; returns the mask to use."""
        raise NotImplementedError


def _allowed(
    module: nn.Module, query: Tensor, key: Tensor, mask: Tensor | None, options: Any
) -> Tensor:
    new, total = query.shape[2], key.shape[2]
    if mask is not None:
        shown = mask[:1, :, :, :total]
        return shown if shown.dtype == torch.bool else shown > torch.finfo(shown.dtype).min / 2
    both_ways = options.get("is_causal", getattr(module, "is_causal", True)) is False
    if both_ways:
        return torch.ones(1, 1, new, total, dtype=torch.bool, device=key.device)
    return causal(new, total, None, key.device)[None, None]


@dataclass(eq=False)
class AttentionWatch(Listener):
    """Notes what tokens attend to, of all heads or of one."""

    pick: Pick
    shares: dict[int, Floats] = field(default_factory=dict, init=False)  # (T, N) by layer
    heads: dict[int, int] = field(default_factory=dict, init=False)

    def hear(self, call: Call) -> Tensor | None:
        """Add the rows of new tokens; the mask stays."""
        heads, total, read = call.query.shape[1], call.key.shape[2], self.first + self.new
        keys = call.key[:1].repeat_interleave(heads // call.key.shape[1], 1)
        weights = attention(call.query[:1], keys, call.allowed, self.pick, call.scale)
        rows = spread(weights, np.arange(call.end - total, call.end), 1, read)
        before = self.shares.get(call.layer, np.zeros((0, read)))
        self.shares[call.layer] = np.concatenate((before, rows))[-self.new :]
        self.heads[call.layer] = heads
        return call.mask

    def parts(self) -> list[Part]:
        """One for each layer that attends."""
        return [
            Part(layer, f"layer {layer + 1}", shares, self.heads[layer])
            for layer, shares in self.shares.items()
        ]


@dataclass(eq=False)
class KeyBlank(Listener):
    """Hides keys of tokens before ``first`` from all that come after."""

    blank: Blank

    def hear(self, call: Call) -> Tensor | None:
        """The mask with more hidden, as numbers to add, which every implementation takes."""
        if not self.blank.concerns(call.layer, KEYS) or self.blank.unit is not None:
            return call.mask
        stands = np.arange(call.end - call.key.shape[2], call.end)
        gone = self.blank.hides(stands, 1) & (stands < self.first)
        hidden = torch.from_numpy(gone).to(call.key.device)
        lowest = torch.finfo(call.query.dtype).min
        if call.mask is not None and call.mask.dtype != torch.bool:
            return call.mask[..., : len(gone)].masked_fill(hidden, lowest)
        nothing = torch.zeros(call.allowed.shape, dtype=call.query.dtype, device=call.key.device)
        return nothing.masked_fill(~call.allowed | hidden, lowest)
