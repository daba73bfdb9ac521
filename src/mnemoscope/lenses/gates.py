"""How far the gates of LSTM and GRU open, token by token.

Shapes: B rows, T tokens, G gates, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemoscope.activations.capture import capture
from mnemoscope.core.errors import UserError
from mnemoscope.memories.recurrent import RecurrentLayer
from mnemoscope.models.model import SequenceModel
from mnemoscope.plots.figure import Series, heatmap, lines

if TYPE_CHECKING:
    import plotly.graph_objects as go

Floats = NDArray[np.float64]

# Gates lie in [0, 1], candidates in [−1, 1]: percentiles are exact to a hundredth.
BINS = 200
EDGES: Floats = np.linspace(-1, 1, BINS + 1)


@dataclass(frozen=True, eq=False)
class GatesResult:
    """What one layer's gates did.

    names    the G gates
    mean     (T, G) over rows and units
    low      (T, G) a tenth of rows and units lies below, high a tenth above
    example  (T, G, D) the first row that was observed
    """

    names: tuple[str, ...]
    mean: Floats
    low: Floats
    high: Floats
    example: Floats

    def table(self) -> list[dict[str, str | int | float]]:
        """One row per token and gate."""
        return [
            {
                "token": t,
                "gate": name,
                "mean": self.mean[t, g],
                "low": self.low[t, g],
                "high": self.high[t, g],
            }
            for t in range(len(self.mean))
            for g, name in enumerate(self.names)
        ]

    def figure(self) -> go.Figure:
        """Curves of all gates over time, with the spread over units as bands."""
        steps = np.arange(len(self.mean))
        series = [
            Series(name, steps, self.mean[:, g], self.low[:, g], self.high[:, g])
            for g, name in enumerate(self.names)
        ]
        return lines(series, "token", "gate", y_range=(-1.05, 1.05))

    def units(self, gate: str, tokens: Sequence[object]) -> go.Figure:
        """One gate of the example as a picture: units down, tokens across."""
        which = self.names.index(gate)
        picture = self.example[:, which].T
        # Units that behave alike stand together.
        order = np.argsort(picture.mean(1))
        labels = [f"unit {unit}" for unit in order]
        return heatmap(picture[order], tokens, labels, "token read", "unit", gate, z_range=(0, 1))


class Gates:
    """Watch one recurrent layer read: ``observe`` batches of equal length, then ``result``."""

    def __init__(self, layer: int = 0) -> None:
        self.layer = layer
        self._names: tuple[str, ...] = ()
        self._example: Floats | None = None
        self._histogram: Floats = np.zeros(())  # (T, G, BINS), how often which value was seen
        self._sum: Floats = np.zeros(())

    def observe(self, model: SequenceModel, tokens: Tensor) -> None:
        """Read tokens (B, T) from the beginning of a stream and watch the gates."""
        layers = list(model.layers)
        if not 0 <= self.layer < len(layers):
            raise UserError(f"the model has layers 0 to {len(layers) - 1}, not {self.layer}")
        layer = layers[self.layer]
        if not isinstance(layer, RecurrentLayer) or len(layer.cell.gates) < 2:
            raise UserError(
                f"a model with {model.config.memory} memory has no gates; watch an lstm or a gru"
            )
        self._names = layer.cell.gates
        path = f"layers.{self.layer}.gates"
        was_training = model.training
        model.eval()
        try:
            with torch.no_grad(), capture(model, path) as seen:
                model(tokens)
        finally:
            model.train(was_training)
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
