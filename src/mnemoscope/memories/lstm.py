"""Long short-term memory: a cell that is only scaled and added to (Hochreiter 1997, Gers 2000).

Shapes: B rows, T steps, D width. Gate order is that of `torch.nn.LSTM`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from mnemoscope.memories.recurrent import Cell, Recurrent, RecurrentLayer, Weights, by_step
from mnemoscope.memories.shapes import Axes
from mnemoscope.memories.state import State


@dataclass(frozen=True)
class LSTMState(State):
    """hidden (B, D): what the rest of the model sees; cell (B, D): what is kept."""

    hidden: Annotated[Tensor, Axes("BD")]
    cell: Annotated[Tensor, Axes("BD")]


def start(zeros: Tensor) -> LSTMState:
    """Nothing seen, nothing kept."""
    return LSTMState(zeros, zeros)


def project(inputs: Tensor, weights: Weights) -> Tensor:
    """W x + b + b', (B, T, 4D), in memory with the time first: a step is contiguous."""
    bias = weights.input_bias + weights.recurrent_bias
    return F.linear(inputs.transpose(0, 1), weights.inputs, bias).transpose(0, 1)


def step(
    inputs: Tensor, state: LSTMState, weights: Weights
) -> tuple[LSTMState, tuple[Tensor, ...]]:
    """c' = forget ⊙ c + input ⊙ candidate and h' = output ⊙ tanh(c')."""
    raw = torch.addmm(inputs, state.hidden, weights.recurrent.t())
    # One `chunk`, not slices: each slice's backward pass would fill a gradient of full width.
    admit, keep, candidate, show = raw.chunk(4, 1)
    admit, keep, show = torch.sigmoid(admit), torch.sigmoid(keep), torch.sigmoid(show)
    candidate = torch.tanh(candidate)
    cell = torch.addcmul(keep * state.cell, admit, candidate)
    hidden = show * torch.tanh(cell)
    return LSTMState(hidden, cell), (admit, keep, candidate, show)


def unroll(
    projected: Tensor, state: LSTMState, recurrent: Tensor, mask: Tensor | None, watch: bool
) -> tuple[Tensor, LSTMState, Tensor | None]:
    """All steps of a segment: the same numbers as `step` after `step`, in less time.

    projected (B, T, 4D) are used up, recurrent (4D, D), mask (B, T). Returns what `scan` returns.
    """
    kind = projected.dtype  # bfloat16 under autocast
    outputs, cell, gates = _Unrolled.apply(  # type: ignore[no-untyped-call]
        projected, state.hidden.to(kind), state.cell.to(kind), recurrent.to(kind), mask, watch
    )
    return outputs, LSTMState(outputs[:, -1].clone(), cell), gates


class _Unrolled(torch.autograd.Function):
    """Backpropagation through time, written out, over buffers with the time first.

    Left to itself, autograd keeps a dozen nodes a step and adds to the gradient of the recurrent
    weights at every one of them; here that gradient is one product at the end.
    """

    @staticmethod
    def forward(
        ctx: Any,
        projected: Tensor,
        hidden: Tensor,
        cell: Tensor,
        recurrent: Tensor,
        mask: Tensor | None,
        watch: bool,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        (rows, steps, _), width = projected.shape, hidden.shape[1]
        gates = projected.transpose(
            0, 1
        ).contiguous()  # what came in becomes, step by step, the gates
        shown = projected.new_empty(steps, rows, width)  # tanh of the new cell
        hiddens = projected.new_empty(
            steps + 1, rows, width
        )  # before each step, and after the last
        cells = torch.empty_like(hiddens)
        hiddens[0], cells[0] = hidden, cell
        moves = by_step(mask, steps)
        for step, (opened, seen, move) in enumerate(zip(gates, shown, moves, strict=True)):
            hidden, cell, new = hiddens[step], cells[step], cells[step + 1]
            opened.addmm_(hidden, recurrent.t())
            opened[:, : 2 * width].sigmoid_()
            opened[:, 2 * width : 3 * width].tanh_()
            opened[:, 3 * width :].sigmoid_()
            admit, keep, candidate, show = opened.chunk(4, 1)
            torch.addcmul(keep * cell, admit, candidate, out=new)
            torch.tanh(new, out=seen)
            torch.mul(show, seen, out=hiddens[step + 1])
            if move is not None:
                torch.where(move, new, cell, out=new)
                torch.where(move, hiddens[step + 1], hidden, out=hiddens[step + 1])
        ctx.past = gates, shown, hiddens, cells, moves, recurrent
        watched = gates.transpose(0, 1).reshape(rows, steps, 4, width) if watch else None
        if watched is not None:
            ctx.mark_non_differentiable(watched)
        return hiddens[1:].transpose(0, 1), cells[-1].clone(), watched

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, d_outputs: Tensor, d_cell: Tensor, d_watched: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        gates, shown, hiddens, cells, moves, recurrent = ctx.past
        width = d_cell.shape[1]
        sigmoid = torch.ops.aten.sigmoid_backward.grad_input
        tanh = torch.ops.aten.tanh_backward
        d_projected = torch.empty_like(gates)
        d_hidden = torch.zeros_like(d_cell)
        now = zip(d_outputs.unbind(1), d_projected, gates, shown, cells[:-1], moves, strict=True)
        for d_output, d_inputs, opened, seen, cell, move in reversed(list(now)):
            admit, keep, candidate, show = opened.chunk(4, 1)
            d_admit, d_keep, d_candidate, d_show = d_inputs.chunk(4, 1)
            d_hidden = d_hidden + d_output
            if move is not None:
                stay = d_hidden * ~move, d_cell * ~move
                d_hidden, d_cell = d_hidden * move, d_cell * move
            sigmoid(d_hidden * seen, show, grad_input=d_show)
            d_cell = d_cell + tanh(d_hidden * show, seen)
            torch.mul(d_cell, candidate, out=d_admit)
            torch.mul(d_cell, cell, out=d_keep)
            both = d_inputs[:, : 2 * width]
            sigmoid(both, opened[:, : 2 * width], grad_input=both)
            tanh.grad_input(d_cell * admit, candidate, grad_input=d_candidate)
            d_hidden, d_cell = d_inputs @ recurrent, d_cell * keep
            if move is not None:
                d_hidden, d_cell = d_hidden + stay[0], d_cell + stay[1]
        d_recurrent = d_projected.flatten(0, 1).t() @ hiddens[:-1].flatten(0, 1)
        return d_projected.transpose(0, 1), d_hidden, d_cell, d_recurrent, None, None


class LSTM(Recurrent):
    """A cell that input, forget and output gates guard."""

    memory: Literal["lstm"] = "lstm"
    # A gate that starts half open forgets half of everything per step (Jozefowicz 2015).
    forget_bias: float = Field(1.0, description="added to the forget gate's bias at the start")
    cell: ClassVar[Cell] = Cell(
        nn.LSTM, ("input", "forget", "candidate", "output"), start, project, step, unroll
    )

    def layer(self, index: int) -> RecurrentLayer:
        """One layer of cells whose forget gates start open."""
        layer = super().layer(index)
        with torch.no_grad():
            layer.weights.input_bias[self.width : 2 * self.width] += self.forget_bias
        return layer
