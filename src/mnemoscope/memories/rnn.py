"""The plain recurrent memory: one vector, rewritten at every step (Elman 1990).

Shapes: B rows, T steps, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnemoscope.memories.recurrent import Cell, Recurrent, Weights
from mnemoscope.memories.shapes import Axes
from mnemoscope.memories.state import State


@dataclass(frozen=True)
class RNNState(State):
    """hidden (B, D): the only thing that is carried."""

    hidden: Annotated[Tensor, Axes("BD")]


def project(inputs: Tensor, weights: Weights) -> Tensor:
    """W x + b + b', (B, T, D)."""
    return F.linear(inputs, weights.inputs, weights.input_bias + weights.recurrent_bias)


def step(inputs: Tensor, state: RNNState, weights: Weights) -> tuple[RNNState, tuple[Tensor, ...]]:
    """h' = tanh(W x + b + b' + U h)."""
    hidden = torch.tanh(torch.addmm(inputs, state.hidden, weights.recurrent.t()))
    return RNNState(hidden), (hidden,)


class RNN(Recurrent):
    """h' = tanh(W x + U h + b)."""

    memory: Literal["rnn"] = "rnn"
    cell: ClassVar[Cell] = Cell(nn.RNN, ("candidate",), RNNState, project, step)
