"""Where the heads of a Sparse Transformer look, layer by layer.

Shapes: L layers, B rows, H heads, T tokens.
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
from mnemoscope.memories.sparse.attention import SparseAttention
from mnemoscope.models.model import SequenceModel
from mnemoscope.plots.figure import heatmap
from mnemoscope.plots.images import slider

if TYPE_CHECKING:
    import plotly.graph_objects as go

Floats = NDArray[np.float64]
# A map has T² numbers a layer: beyond this the lens would hold gigabytes.
LONGEST = 4096


@dataclass(frozen=True, eq=False)
class LooksResult:
    """How much tokens look at tokens, on average.

    patterns   what each of the L layers may look at
    weights    (L, T, T) mean over rows and heads; row i is what token i looks at
    distances  (rows, L) mean distance looked back over, for each row that was read
    even       (L,) the same for a layer that looks evenly at all it may see
    """

    patterns: tuple[str, ...]
    weights: Floats
    distances: Floats
    even: Floats

    def table(self) -> list[dict[str, str | int | float]]:
        """One row per layer: how far it looks back, and how far an even look would go."""
        low, high = np.quantile(self.distances, (0.1, 0.9), axis=0)
        return [
            {
                "layer": layer + 1,
                "pattern": pattern,
                "distance": float(self.distances[:, layer].mean()),
                "low": float(low[layer]),
                "high": float(high[layer]),
                "even": float(self.even[layer]),
            }
            for layer, pattern in enumerate(self.patterns)
        ]

    def figure(self) -> go.Figure:
        """The whole map, one layer at a time: who looks (down) at whom (across)."""
        places = range(len(self.weights[0]))
        # Weights fall off steeply: their root shows the faint ones too.
        maps = {
            f"{layer + 1} ({pattern})": heatmap(
                np.sqrt(weights), places, places, "token looked at", "token looking", "√weight"
            )
            for layer, (pattern, weights) in enumerate(
                zip(self.patterns, self.weights, strict=True)
            )
        }
        return slider(maps, "layer")

    def seen_from(self, place: int, shape: Sequence[int]) -> Floats:
        """What the token at ``place`` looks at, laid out as an image of ``shape``, (L, *shape).

        Tokens stand one behind the pixels they read: token t has read the pixel t − 1. Pixels not
        read yet are NaN.
        """
        pixels = np.full((len(self.weights), self.weights.shape[1]), np.nan)
        pixels[:, :place] = self.weights[:, place, 1 : place + 1]
        return pixels.reshape(-1, *shape)


class AttentionMaps:
    """Watch the attention of a model: ``observe`` batches of equal length, then ``result``."""

    def __init__(self) -> None:
        self._patterns: tuple[str, ...] = ()
        self._sum: Floats = np.zeros(())
        self._even: Floats = np.zeros(())
        self._distances: list[Floats] = []

    def observe(self, model: SequenceModel, tokens: Tensor) -> None:
        """Read tokens (B, T) from the beginning of a stream and watch."""
        layers = [getattr(layer, "attention", None) for layer in model.layers]
        heads = [layer for layer in layers if isinstance(layer, SparseAttention)]
        if not heads or len(heads) != len(layers):
            raise UserError(
                f"a model with {model.config.memory} memory has no looks to watch; watch a sparse "
                "one (pattern=dense looks at everything)"
            )
        length = tokens.shape[1]
        if length > LONGEST:
            raise UserError(f"{length} tokens are too many to draw a map of; give {LONGEST}")
        was_training = model.training
        model.eval()
        try:
            with torch.no_grad(), capture(model, "layers.*.attention.maps") as seen:
                model(tokens)
        finally:
            model.train(was_training)
        maps = [seen[f"layers.{n}.attention.maps"].mean(1) for n in range(len(layers))]
        weights = torch.stack(maps, 1).double().cpu().numpy()  # (B, L, T, T)
        if self._distances and self._sum.shape != weights.shape[1:]:
            raise UserError(
                f"layers and tokens are {weights.shape[1:3]} here and were {self._sum.shape[:2]} "
                "before: use one lens per length and per model"
            )
        apart = np.arange(length)[:, None] - np.arange(length)
        self._patterns = tuple("|".join(p.name for p in one.patterns) for one in heads)
        masks = [np.stack([p.mask(length) for p in one.patterns]) for one in heads]
        spread = [(mask / mask.sum(2, keepdims=True)).mean(0) for mask in masks]
        self._even = (np.stack(spread) * apart).sum(2).mean(1)
        self._distances.append((weights * apart).sum(3).mean(2))
        self._sum = self._sum + weights.sum(0)

    def result(self) -> LooksResult:
        """What was seen so far."""
        if not self._distances:
            raise UserError("nothing was observed yet: call observe(model, tokens) first")
        distances = np.concatenate(self._distances)
        return LooksResult(self._patterns, self._sum / len(distances), distances, self._even)
