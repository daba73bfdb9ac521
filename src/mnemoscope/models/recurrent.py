"""Recurrent layers: readable cells when somebody looks, torch's fused kernels when nobody does.

Where torch has no kernel for the numbers at hand, the cells stand in.

Shapes: B rows, T tokens, D width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from mnemoscope.core.errors import UserError
from mnemoscope.memories import gru, lstm, rnn
from mnemoscope.memories.recurrent import Cell, Weights, scan
from mnemoscope.memories.shapes import Wanted
from mnemoscope.models.config import LSTM, Recurrent
from mnemoscope.models.footprint import check as check_size
from mnemoscope.models.kernels import fuses, weights_of
from mnemoscope.models.model import Context, SequenceModel, Tap
from mnemoscope.models.positions import Positions

CELLS: dict[str, tuple[Cell, Any]] = {
    "rnn": (rnn.CELL, nn.RNN),
    "lstm": (lstm.CELL, nn.LSTM),
    "gru": (gru.CELL, nn.GRU),
}


class RecurrentLayer(nn.Module):
    """One layer; its weights *are* those of ``kernel``, a one-layer module of `torch.nn`."""

    def __init__(self, memory: str, width: int, dropout: float, inputs: int | None = None) -> None:
        super().__init__()
        self.cell, kernel = CELLS[memory]
        self.kernel = kernel(inputs or width, width, batch_first=True)
        self.gates = Tap()
        self.dropout = nn.Dropout(dropout)

    @property
    def weights(self) -> Weights:
        """The kernel's four arrays under their names here."""
        return weights_of(self.kernel)

    @property
    def wants(self) -> Wanted:
        """The state that it can go on from."""
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


def build(config: Recurrent) -> SequenceModel:
    """Build the model that a config describes."""
    check_size(config)
    layers = [
        RecurrentLayer(config.memory, config.width, config.dropout) for _ in range(config.layers)
    ]
    if isinstance(config, LSTM):
        with torch.no_grad():
            for layer in layers:
                layer.weights.input_bias[config.width : 2 * config.width] += config.forget_bias
    return SequenceModel(config, layers, Positions("none", config.width), norm=False)


def to_torch(model: SequenceModel) -> nn.RNNBase:
    """Return the model's recurrent layers as one `torch.nn` module with copies of the weights."""
    config = model.config
    if not isinstance(config, Recurrent):
        raise UserError(f"a model with {config.memory} memory has no counterpart in torch.nn")
    kind = CELLS[config.memory][1]
    module: nn.RNNBase = kind(config.width, config.width, config.layers, batch_first=True)
    module.to(model.readout.weight)
    weights = {}
    for index, layer in enumerate(model.layers):
        kernel: Any = layer.kernel
        for name, weight in kernel.state_dict().items():
            weights[f"{name[:-1]}{index}"] = weight
    module.load_state_dict(weights)
    return module


def from_torch(model: SequenceModel, module: nn.RNNBase) -> None:
    """Copy the weights of an `nn.RNN`, `nn.LSTM` or `nn.GRU` into the model's layers."""
    config = model.config
    same_kind = isinstance(config, Recurrent) and type(module) is CELLS[config.memory][1]
    plain = module.bias and not (module.bidirectional or module.proj_size)
    plain = plain and module.mode != "RNN_RELU"
    theirs = (module.input_size, module.hidden_size, module.num_layers)
    if not (same_kind and plain and theirs == (config.width, config.width, config.layers)):
        raise UserError(
            f"{module} does not fit a model with {config.memory} memory, width {config.width} and "
            f"{config.layers} layers: it must be of that kind and shape, one-directional, with bias"
        )
    weights = module.state_dict()
    for index, layer in enumerate(model.layers):
        kernel: Any = layer.kernel
        names = kernel.state_dict()
        kernel.load_state_dict({name: weights[f"{name[:-1]}{index}"] for name in names})
