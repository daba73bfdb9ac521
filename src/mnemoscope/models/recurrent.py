"""Recurrent models to and from `torch.nn`, whose weights they have."""

from __future__ import annotations

from typing import Any

from torch import nn

from mnemoscope.core.errors import UserError
from mnemoscope.memories.recurrent import Recurrent
from mnemoscope.models.model import SequenceModel


def to_torch(model: SequenceModel) -> nn.RNNBase:
    """Return the model's recurrent layers as one `torch.nn` module with copies of the weights."""
    config = model.config
    if not isinstance(config, Recurrent):
        raise UserError(f"a model with {config.memory} memory has no counterpart in torch.nn")
    module: nn.RNNBase = config.cell.kernel(
        config.width, config.width, config.layers, batch_first=True
    )
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
    same_kind = isinstance(config, Recurrent) and type(module) is config.cell.kernel
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
