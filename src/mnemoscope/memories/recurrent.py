"""What RNN, LSTM and GRU share: weights, a readable loop over steps, the layer, the config.

The readable cells run when somebody looks at the gates or rows are padded, and where torch has no
kernel for the numbers at hand; else torch's fused kernels do.

Shapes: B rows, T steps, I input width, D width, G = number of gates · D.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from mnemoscope.memories.config import ModelConfig
from mnemoscope.memories.kernels import fuses
from mnemoscope.memories.layer import Context, Tap
from mnemoscope.memories.shapes import Wanted


class Weights(NamedTuple):
    """The four arrays of a recurrent layer, in the layout of `torch.nn`."""

    inputs: Tensor  # (G, I)
    recurrent: Tensor  # (G, D)
    input_bias: Tensor  # (G,)
    recurrent_bias: Tensor  # (G,)


@dataclass(frozen=True)
class Cell:
    """A recurrent memory as functions.

    kernel   the module of `torch.nn` that computes the same with the same weights
    gates    names of what `step` shows beside the state
    start    (vectors (B, D)) -> the state before the first token; the vectors are zeros
    project  (inputs (B, T, I), weights) -> pre-activations (B, T, G), as far as inputs decide them
    step     (pre-activations (B, G), state, weights) -> (state, gates), one token
    unroll   (pre-activations (B, T, G), state, recurrent weights, mask, watch) -> what `scan`
             returns, where a memory has a faster way through a segment than step after step
    """

    kernel: Any
    gates: tuple[str, ...]
    start: Callable[[Tensor], Any]
    project: Callable[[Tensor, Weights], Tensor]
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
    projected = cell.project(inputs, weights)
    # A compiler joins the steps by itself, and cannot follow buffers that are used again.
    if cell.unroll is not None and not torch.compiler.is_compiling():
        return cell.unroll(projected, state, weights.recurrent, mask, watch)
    return step_by_step(cell, projected, state, weights, mask, watch)


def step_by_step(
    cell: Cell, projected: Tensor, state: Any, weights: Weights, mask: Tensor | None, watch: bool
) -> tuple[Tensor, Any, Tensor | None]:
    """What `scan` means: one `cell.step` after the other over pre-activations (B, T, G)."""
    # `unbind` once: indexing inside the loop would make the backward pass quadratic in T.
    steps = projected.unbind(1)
    outputs, opened = [], []
    for now, moves in zip(steps, by_step(mask, len(steps)), strict=True):
        new, gates = cell.step(now, state, weights)
        state = new if moves is None else moved(moves, new, state)
        outputs.append(state.hidden)
        if watch:
            opened.append(torch.stack(gates, 1))
    return torch.stack(outputs, 1), state, torch.stack(opened, 1) if watch else None


def by_step(mask: Tensor | None, steps: int) -> tuple[Tensor | None, ...]:
    """Which rows move at each step, (B, 1) a step; None where all do."""
    return (None,) * steps if mask is None else mask.unsqueeze(-1).unbind(1)


def moved(moves: Tensor, new: Any, old: Any) -> Any:
    """The new state in rows that move (B, 1), the old one in the others."""
    before = iter([tensor for _, tensor in old.tensors()])
    return new.map(lambda tensor: torch.where(moves, tensor, next(before)))


def weights_of(kernel: nn.RNNBase, layer: int = 0, backwards: bool = False) -> Weights:
    """The four arrays of a layer of a kernel under their names here."""
    end = f"_l{layer}{'_reverse' if backwards else ''}"
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return Weights(*(getattr(kernel, name + end) for name in names))


class RecurrentLayer(nn.Module):
    """One layer; its weights *are* those of ``kernel``, a one-layer module of `torch.nn`."""

    def __init__(self, cell: Cell, width: int, dropout: float, inputs: int | None = None) -> None:
        super().__init__()
        self.cell = cell
        self.kernel = cell.kernel(inputs or width, width, batch_first=True)
        self.gates = Tap()
        self.dropout = nn.Dropout(dropout)

    @property
    def weights(self) -> Weights:
        """The kernel's four arrays under their names here."""
        return weights_of(self.kernel)

    @property
    def wants(self) -> Wanted:
        """The state that it can continue from."""
        width = self.kernel.hidden_size
        return Wanted(type(self.cell.start(torch.empty(0, width))), {"D": width})

    def forward(self, vectors: Tensor, state: Any, context: Context) -> tuple[Tensor, Any]:
        """vectors (B, T, D) -> the hidden vector after every token (B, T, D), and the state.

        A lens on ``gates`` sees (B, T, number of gates, D) in the order of ``cell.gates``.
        """
        if state is None:
            state = self.cell.start(vectors.new_zeros(vectors.shape[0], self.kernel.hidden_size))
        if self.gates.watched or context.mask is not None or not fuses(self.kernel):
            read = scan(
                self.cell, vectors, state, self.weights, context.mask, watch=self.gates.watched
            )
            outputs, state, opened = read
            if opened is not None:
                self.gates(opened)
        else:
            outputs, state = self._fused(vectors, state)
        return self.dropout(outputs), state

    def _fused(self, vectors: Tensor, state: Any) -> tuple[Tensor, Any]:
        before = tuple(tensor.unsqueeze(0) for _, tensor in state.tensors())
        outputs, after = self.kernel(vectors, before if len(before) > 1 else before[0])
        after = after if isinstance(after, tuple) else (after,)
        return outputs, type(state)(*(tensor.squeeze(0) for tensor in after))


class Recurrent(ModelConfig):
    """RNN, LSTM and GRU: layers of cells, the state is a vector or two per layer."""

    cell: ClassVar[Cell]

    def layer(self, index: int) -> RecurrentLayer:
        """One layer of cells."""
        return RecurrentLayer(self.cell, self.width, self.dropout)

    @property
    def layer_weights(self) -> int:
        """Two matrices for every gate."""
        return 2 * len(self.cell.gates) * self.width**2
