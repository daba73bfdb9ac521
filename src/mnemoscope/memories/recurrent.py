"""What RNN, LSTM and GRU share: their weights, and one readable loop over the steps of a segment.

Shapes: B rows, T steps, I input width, D width, G = number of gates · D.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Weights(NamedTuple):
    """The four arrays of a recurrent layer, in the layout of `torch.nn`."""

    inputs: Tensor  # (G, I)
    recurrent: Tensor  # (G, D)
    input_bias: Tensor  # (G,)
    recurrent_bias: Tensor  # (G,)


@dataclass(frozen=True)
class Cell:
    """A recurrent memory as functions.

    gates  names of what `step` shows beside the state
    start  (vectors (B, D)) -> the state before the first token; the vectors are zeros
    drive  (inputs (B, T, I), weights) -> (B, T, G), all that does not depend on the state
    step   (drive (B, G), state, weights) -> (state, gates), one token
    unroll (drives (B, T, G), state, recurrent weights, mask, watch) -> what `scan` returns, where
           a memory has a faster way through a segment than one step after the other
    """

    gates: tuple[str, ...]
    start: Callable[[Tensor], Any]
    drive: Callable[[Tensor, Weights], Tensor]
    step: Callable[[Tensor, Any, Weights], tuple[Any, tuple[Tensor, ...]]]
    unroll: Callable[..., tuple[Tensor, Any, Tensor | None]] | None = None


def scan(
    cell: Cell,
    inputs: Tensor,
    state: Any,
    weights: Weights,
    mask: Tensor | None = None,
    watch: bool = False,
) -> tuple[Tensor, Any, Tensor | None]:
    """Read T steps; a row does not move where its mask (B, T) is false.

    Returns outputs (B, T, D), the state after the last step and, when watched, what the gates
    did, (B, T, number of gates, D).
    """
    # One product for all steps.
    drives = cell.drive(inputs, weights)
    # A compiler joins the steps by itself, and cannot follow buffers that are used again.
    if cell.unroll is not None and not torch.compiler.is_compiling():
        return cell.unroll(drives, state, weights.recurrent, mask, watch)
    return step_by_step(cell, drives, state, weights, mask, watch)


def step_by_step(
    cell: Cell, drives: Tensor, state: Any, weights: Weights, mask: Tensor | None, watch: bool
) -> tuple[Tensor, Any, Tensor | None]:
    """What `scan` means: one `cell.step` after the other over drives (B, T, G)."""
    # `unbind` once: indexing inside the loop would make the backward pass quadratic in T.
    steps = drives.unbind(1)
    masks = [None] * len(steps) if mask is None else mask.unsqueeze(-1).unbind(1)
    outputs, opened = [], []
    for drive, moves in zip(steps, masks, strict=True):
        new, gates = cell.step(drive, state, weights)
        state = new if moves is None else moved(moves, new, state)
        outputs.append(state.hidden)
        if watch:
            opened.append(torch.stack(gates, 1))
    return torch.stack(outputs, 1), state, torch.stack(opened, 1) if watch else None


def moved(moves: Tensor, new: Any, old: Any) -> Any:
    """The new state in rows that move (B, 1), the old one in the others."""
    before = iter([tensor for _, tensor in old.tensors()])
    return new.map(lambda tensor: torch.where(moves, tensor, next(before)))
