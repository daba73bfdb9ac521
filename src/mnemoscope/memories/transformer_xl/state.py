"""The state of Transformer-XL and of what may stand behind its cache (Dai 2019).

Shapes: B rows, T new tokens, S = cached + new tokens, D width, C tokens a chunk.

A cache holds what a layer was given, of which keys and values are made anew: a token needs one
vector and not two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from mnemoscope.memories.infinite.signal import ContinuousState
from mnemoscope.memories.shapes import Axes
from mnemoscope.memories.state import State, joined_visibility


@dataclass(frozen=True)
class LayerInputs(State):
    """inputs (B, S, D) of a layer; visible (B, S) once a row was padded or reset, else None."""

    inputs: Annotated[Tensor, Axes("BSD")]
    visible: Annotated[Tensor, Axes("BS", "flags")] | None = None

    @property
    def length(self) -> int:
        """Tokens held, padding included."""
        return self.inputs.shape[1]

    def last(self, count: int) -> LayerInputs:
        """Return the newest ``count`` tokens of every row; those before are forgotten."""
        drop = self.length - count
        if self.visible is None:
            return self if drop <= 0 else LayerInputs(self.inputs[:, drop:])
        # Padding goes first: it must not take the place of a token, nor stand between two.
        order = torch.argsort(self.visible.to(torch.uint8), dim=1, stable=True)[:, max(drop, 0) :]
        where = order[:, :, None].expand(-1, -1, self.inputs.shape[2])
        return LayerInputs(self.inputs.gather(1, where), self.visible.gather(1, order))

    def leave(self, keep: int, chunk: int) -> tuple[LayerInputs, Left | None]:
        """Let the oldest tokens go in whole chunks, as many as leave at least ``keep`` behind."""
        rows, length, width = self.inputs.shape
        if self.visible is None:
            chunks = max(0, length - keep) // chunk
            if chunks == 0:
                return self, None
            gone = self.inputs[:, : chunks * chunk].view(rows, chunks, chunk, width)
            return LayerInputs(self.inputs[:, chunks * chunk :]), Left(gone, None)
        # Each row lets go of its own tokens; padding stands first, so they are in one stretch.
        state = self.last(length)
        assert state.visible is not None
        real = state.visible.sum(1)
        own = (real - keep).clamp(min=0) // chunk  # (B,) chunks
        rest = int((real - own * chunk).max())
        chunks = int(own.max())
        if chunks == 0:
            return state.last(rest), None
        steps = torch.arange(chunks * chunk, device=self.inputs.device)
        where = (length - real[:, None] + steps).clamp(max=length - 1)
        gone = state.inputs.gather(1, where[:, :, None].expand(-1, -1, width))
        steps = torch.arange(length, device=self.inputs.device)
        still = state.visible & (steps >= (length - real + own * chunk)[:, None])
        present = torch.arange(chunks, device=own.device) < own[:, None]
        left = Left(gone.view(rows, chunks, chunk, width), present)
        return LayerInputs(state.inputs, still).last(rest), left

    def _forget(self, fresh: Tensor) -> LayerInputs:
        visible = self.visible
        if visible is None:
            visible = self.inputs.new_ones(self.batch, self.length, dtype=torch.bool)
        return super(LayerInputs, LayerInputs(self.inputs, visible))._forget(fresh)


@dataclass(frozen=True)
class Left:
    """Tokens that left a cache: tokens (B, chunks, C, D) in reading order.

    ``present`` (B, chunks) is false where a row let go of fewer chunks, None when none did.
    """

    tokens: Tensor
    present: Tensor | None


@dataclass(frozen=True)
class LayerState(State):
    """Of one layer: the last tokens, compressed vectors of those before, a signal of all older."""

    cache: LayerInputs
    compressed: LayerInputs | None = None
    signal: ContinuousState | None = None


def append(state: LayerInputs | None, inputs: Tensor, mask: Tensor | None) -> LayerInputs:
    """Add T tokens: inputs (B, T, D), mask (B, T) false where a token is padding."""
    if state is None:
        return LayerInputs(inputs, mask)
    visible = joined_visibility(inputs, state.visible, state.length, mask, inputs.shape[1])
    return LayerInputs(torch.cat((state.inputs, inputs), 1), visible)
