"""Attention mass between positions, layer by layer: options, result and page of the lens.

Shapes: L layers, T tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from mnemoscope.core.arrays import Floats
from mnemoscope.lenses.lens import Part, Records, Result, TextOptions, records
from mnemoscope.plots.figure import Plot, heatmap
from mnemoscope.plots.images import slider
from mnemoscope.report.document import Figure, Table

# A map has T² numbers a layer: beyond this the lens would hold gigabytes.
LONGEST = 4096


class AttentionMapsOptions(TextOptions):
    """How much is read; a map has as many rows and columns as a text has tokens."""

    length: int = Field(128, ge=17, le=LONGEST, description="tokens read at once, sides of a map")


@dataclass(frozen=True, eq=False)
class AttentionMapsResult(Result):
    """Attention mass of queries on keys, and how far back it goes.

    patterns   what each of the L layers may attend to
    weights    (L, T, T) mean over texts and heads; row i is the attention of query i
    distances  (texts, L) mean distance between query and key, weighted by attention mass
    even       (L,) the same if attention were even over all that a layer may see: the null
    """

    patterns: tuple[str, ...]
    weights: Floats
    distances: Floats
    even: Floats

    def table(self) -> Records:
        """One row per layer: how far back attention goes, and how far even attention would."""
        low, high = np.quantile(self.distances, (0.1, 0.9), axis=0)
        return records(
            {"layer": range(1, len(self.patterns) + 1)},
            {
                "pattern": self.patterns,
                "distance": self.distances.mean(0),
                "low": low,
                "high": high,
                "even": self.even,
            },
        )

    def figure(self) -> Plot:
        """The whole map, one layer at a time: queries down, keys across."""
        positions = range(len(self.weights[0]))
        # Weights fall off steeply: their root shows the faint ones too.
        maps = {
            f"{layer + 1} ({pattern})": heatmap(
                np.sqrt(weights), positions, positions, "key", "query", "√weight"
            )
            for layer, (pattern, weights) in enumerate(
                zip(self.patterns, self.weights, strict=True)
            )
        }
        return slider(maps, "layer")

    def seen_from(self, position: int, shape: Sequence[int]) -> Floats:
        """Attention of the token at ``position``, laid out as an image of ``shape``, (L, *shape).

        Tokens stand one behind the pixels they read: token t has read the pixel t − 1. Pixels not
        read yet are NaN.
        """
        pixels = np.full((len(self.weights), self.weights.shape[1]), np.nan)
        pixels[:, :position] = self.weights[:, position, 1 : position + 1]
        return pixels.reshape(-1, *shape)

    def parts(self) -> list[Part]:
        """How far back attention goes, then the maps themselves."""
        rows = self.table()
        far = max(rows, key=lambda row: float(row["distance"]))
        columns = ["layer", "pattern", "distance", "low", "high", "even"]
        layer, pattern = self.weights.shape[0] - 1, self.patterns[-1]
        top = self.weights[layer].mean(0)
        mass = [{"layer": layer + 1, "key": j, "mean mass": float(m)} for j, m in enumerate(top)]
        return [
            f"{len(self.distances)} texts of {self.weights.shape[1]} tokens. Attention "
            f"goes farthest back in layer {far['layer']} ({far['pattern']}): "
            f"{far['distance']:.1f} tokens in the mean; attention that is even over all "
            f"that may be seen there would go back {far['even']:.1f}.",
            Table(
                "Distance by layer",
                columns,
                [[row[column] for column in columns] for row in rows],
                "Tokens, weighted by attention mass; low and high: 80 % of the texts.",
            ),
            Figure(
                "Attention maps",
                self.figure(),
                "Mean over texts and heads, one layer at a time. In the data: mean mass "
                f"that keys of layer {layer + 1} ({pattern}) receive.",
                mass,
            ),
        ]
