"""Long short-term memory: a cell that is only scaled and added to (Hochreiter 1997, Gers 2000).

Shapes: B rows, T steps, D width. Gate order is that of `torch.nn.LSTM`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from mnemoscope.memory.recurrent import Cell, Weights
from mnemoscope.memory.state import State


@dataclass(frozen=True)
class LSTMState(State):
    """hidden (B, D): what the rest of the model sees; cell (B, D): what is kept."""

    hidden: Tensor
    cell: Tensor


def start(zeros: Tensor) -> LSTMState:
    """Nothing seen, nothing kept."""
    return LSTMState(zeros, zeros)


def drive(inputs: Tensor, weights: Weights) -> Tensor:
    """W x + b + b', (B, T, 4D)."""
    return F.linear(inputs, weights.inputs, weights.input_bias + weights.recurrent_bias)


def step(drive: Tensor, state: LSTMState, weights: Weights) -> tuple[LSTMState, tuple[Tensor, ...]]:
    """c' = forget ⊙ c + input ⊙ candidate and h' = output ⊙ tanh(c')."""
    raw = torch.addmm(drive, state.hidden, weights.recurrent.t())
    # One `chunk`, not slices: each slice's backward pass would fill a gradient of full width.
    admit, keep, candidate, show = raw.chunk(4, 1)
    admit, keep, show = torch.sigmoid(admit), torch.sigmoid(keep), torch.sigmoid(show)
    candidate = torch.tanh(candidate)
    cell = torch.addcmul(keep * state.cell, admit, candidate)
    hidden = show * torch.tanh(cell)
    return LSTMState(hidden, cell), (admit, keep, candidate, show)


CELL = Cell(gates=("input", "forget", "candidate", "output"), start=start, drive=drive, step=step)
