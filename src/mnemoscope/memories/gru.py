"""Gated recurrent unit: one vector, mixed with its successor by an update gate (Cho 2014).

Shapes: B rows, T steps, D width. Gate order is that of `torch.nn.GRU` and, as there, the reset
gate acts after the recurrent product, which is why its bias cannot join the inputs'.
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
class GRUState(State):
    """hidden (B, D): the only thing that is carried."""

    hidden: Annotated[Tensor, Axes("BD")]


def project(inputs: Tensor, weights: Weights) -> Tensor:
    """W x + b, (B, T, 3D)."""
    return F.linear(inputs, weights.inputs, weights.input_bias)


def step(inputs: Tensor, state: GRUState, weights: Weights) -> tuple[GRUState, tuple[Tensor, ...]]:
    """h' = candidate + update ⊙ (h − candidate); candidate = tanh(W x + b + reset ⊙ (U h + b'))."""
    recurrent = torch.addmm(weights.recurrent_bias, state.hidden, weights.recurrent.t())
    # One `chunk`, not slices: each slice's backward pass would fill a gradient of full width.
    new, old = inputs.chunk(3, 1), recurrent.chunk(3, 1)
    reset = torch.sigmoid(new[0] + old[0])
    update = torch.sigmoid(new[1] + old[1])
    candidate = torch.tanh(torch.addcmul(new[2], reset, old[2]))
    # Under autocast the gates are bfloat16 while a fresh state is not, and lerp does not promote.
    hidden = torch.lerp(candidate, state.hidden.to(candidate.dtype), update)
    return GRUState(hidden), (reset, update, candidate)


class GRU(Recurrent):
    """One vector with a reset and an update gate."""

    memory: Literal["gru"] = "gru"
    cell: ClassVar[Cell] = Cell(nn.GRU, ("reset", "update", "candidate"), GRUState, project, step)
