"""States with another past, to compare with: the last window and the sinks stay as they are.

A model that loses those reads badly whatever it remembers, which would flatter every memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from mnemoscope.huggingface.infinite.slots import SlotState
from mnemoscope.huggingface.infinite.windows import WindowLayerState
from mnemoscope.memories.infinite.signal import ContinuousState
from mnemoscope.memories.state import StreamState


def exchanged(state: StreamState, window: int) -> StreamState:
    """The state whose slots before the last window, and signal, are those of the row before it."""
    rows = [*range(-1, state.batch - 1)]

    def change(slots: SlotState) -> SlotState:
        def mixed(one: Tensor) -> Tensor:
            axis = 2 if one.dim() == 4 else 1
            last = one.shape[axis] - window
            other, own = one[rows].narrow(axis, 0, last), one.narrow(axis, last, window)
            return torch.cat((other, own), axis)

        return slots.map(mixed)

    return _changed(state, change, lambda signal: signal.map(lambda one: one[rows]))


def without(state: StreamState, window: int, sinks: int) -> StreamState:
    """The state whose slots before the last window are empty, but for the sinks; its signal too."""

    def change(slots: SlotState) -> SlotState:
        times = slots.times.clone()
        older = times[:, : times.shape[1] - window]
        older.masked_fill_(older > sinks, 0)
        return replace(slots, times=times)

    return _changed(state, change, lambda signal: signal.reset(range(state.batch)))


def _changed(
    state: StreamState,
    of_slots: Callable[[SlotState], SlotState],
    of_signal: Callable[[ContinuousState], ContinuousState],
) -> StreamState:
    layers = [
        replace(
            layer,
            slots=None if layer.slots is None else of_slots(layer.slots),
            signal=None if layer.signal is None else of_signal(layer.signal),
        )
        if isinstance(layer, WindowLayerState)
        else layer
        for layer in state.layers
    ]
    return replace(state, layers=tuple(layers))
