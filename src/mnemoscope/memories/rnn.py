"""The plain recurrent memory: one vector, rewritten at every step (Elman 1990).

Shapes: B rows, T steps, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from mnemoscope.memories.recurrent import Cell, Weights
from mnemoscope.memories.shapes import Axes
from mnemoscope.memories.state import State


@dataclass(frozen=True)
class RNNState(State):
    """hidden (B, D): the only thing that is carried."""

    hidden: Annotated[Tensor, Axes("BD")]


def drive(inputs: Tensor, weights: Weights) -> Tensor:
    """W x + b + b', (B, T, D)."""
    return F.linear(inputs, weights.inputs, weights.input_bias + weights.recurrent_bias)


def step(drive: Tensor, state: RNNState, weights: Weights) -> tuple[RNNState, tuple[Tensor, ...]]:
    """h' = tanh(drive + U h)."""
    hidden = torch.tanh(torch.addmm(drive, state.hidden, weights.recurrent.t()))
    return RNNState(hidden), (hidden,)


CELL = Cell(gates=("candidate",), start=RNNState, drive=drive, step=step)
