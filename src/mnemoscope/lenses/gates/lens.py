"""How far the gates of LSTM and GRU open, token by token.

Shapes: B rows, T tokens, G gates, D width.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.capture import capture
from mnemoscope.core.arrays import Floats
from mnemoscope.core.errors import UserError
from mnemoscope.lenses.gates.result import GatesOptions, GatesResult
from mnemoscope.lenses.inputs import NativeLens
from mnemoscope.memories.recurrent import RecurrentLayer
from mnemoscope.models.evaluating import evaluating
from mnemoscope.models.model import SequenceModel

# Gates lie in [0, 1], candidates in [−1, 1]: percentiles are exact to a hundredth.
BINS = 200
EDGES: Floats = np.linspace(-1, 1, BINS + 1)


class Gates(NativeLens):
    """Watch one recurrent layer read: ``observe`` batches of equal length, then ``result``."""

    title = "Gates"
    question = "How far do the gates of {models} open while it reads?"
    Options, Result = GatesOptions, GatesResult
    needs = "gates are those of LSTM and GRU"

    def __init__(self, layer: int = 0) -> None:
        self.layer = layer
        self._names: tuple[str, ...] = ()
        self._example: Floats | None = None
        self._histogram: Floats = np.zeros(())  # (T, G, BINS), how often which value was seen
        self._sum: Floats = np.zeros(())

    def observe(self, model: SequenceModel, tokens: Tensor) -> None:
        """Read tokens (B, T) from the beginning of a stream and watch the gates."""
        self._names = self.check_layers(model).cell.gates
        path = f"layers.{self.layer}.gates"
        with evaluating(model), torch.no_grad(), capture(model, path) as seen:
            model(tokens)
        gates = seen[path].double().cpu().numpy()  # (B, T, G, D)
        if self._example is None:
            self._example = gates[0]
        if gates.shape[1:] != self._example.shape:
            raise UserError(
                f"tokens, gates, units are {gates.shape[1:]} here and were {self._example.shape} "
                "before: use one lens per length and per model"
            )
        self._sum = self._sum + gates.sum((0, 3))
        self._histogram = self._histogram + _histogram(gates)

    def check_layers(self, model: SequenceModel) -> RecurrentLayer:
        """The layer whose gates are watched, or `UserError`."""
        layers = list(model.layers)
        if not 0 <= self.layer < len(layers):
            raise UserError(f"the model has layers 0 to {len(layers) - 1}, not {self.layer}")
        layer = layers[self.layer]
        if not isinstance(layer, RecurrentLayer) or len(layer.cell.gates) < 2:
            raise UserError(f"{self.needs}: this is a model with {model.config.memory} memory")
        return layer

    def result(self) -> GatesResult:
        """What was seen so far."""
        if self._example is None:
            raise UserError("nothing was observed yet: call observe(model, tokens) first")
        seen = self._histogram.sum(-1)
        below = self._histogram.cumsum(-1) / seen[..., None]
        low, high = EDGES[(below < 0.1).sum(-1)], EDGES[(below < 0.9).sum(-1) + 1]
        return GatesResult(self._names, self._sum / seen, low, high, self._example)


def _histogram(gates: Floats) -> Floats:
    """Count values (B, T, G, D) into (T, G, BINS)."""
    steps, names = gates.shape[1:3]
    bins = np.clip(((gates + 1) * (BINS / 2)).astype(np.int64), 0, BINS - 1)
    cell = np.arange(steps * names).reshape(1, steps, names, 1) * BINS
    counts = np.bincount((cell + bins).ravel(), minlength=steps * names * BINS)
    return counts.reshape(steps, names, BINS).astype(np.float64)
