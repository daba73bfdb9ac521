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
from mnemoscope.plots.figure import Plot, Series, bars, heatmap
from mnemoscope.plots.images import slider
from mnemoscope.report.document import Figure, Finding, finding

# A map has T² numbers a layer: beyond this the lens would hold gigabytes.
LONGEST = 4096
# Between which quantiles texts count: 80 % of them.
BAND = (0.1, 0.9)


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
        """One row per layer: how far back attention lies, and uniform attention would."""
        low, high = np.quantile(self.distances, BAND, axis=0)
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

    def finding(self) -> Finding:
        """In how many layers attention differs from uniform attention, and where most."""
        mean, count = self.distances.mean(0), len(self.patterns)
        low, high = np.quantile(self.distances, BAND, axis=0)
        near, far = int((high < self.even).sum()), int((low > self.even).sum())
        most = int(np.abs(mean / np.maximum(self.even, 1e-300) - 1).argmax())
        texts = len(self.distances)
        of_texts = f" (80 % of {texts} texts: {low[most]:.1f} to {high[most]:.1f})"
        if texts == 1:
            said = (
                "One text was read, so whether attention differs from uniform attention is not "
                "judged."
            )
        elif near + far:
            layers = f"of {count} layer{'s' if count > 1 else ''}"
            nearer = f"stays nearer in {near} {layers}" if near else ""
            farther = f"reaches farther back in {far} {layers}" if far else ""
            said = (
                f"Attention {' and '.join(filter(None, (nearer, farther)))} than uniform attention "
                "over the same pattern would."
            )
        else:
            said = (
                "In no layer is the distance of attention distinguishable from that of uniform "
                "attention over the same pattern."
            )
        labels = [f"{n} ({pattern})" for n, pattern in enumerate(self.patterns, start=1)]
        return finding(
            said,
            f"The difference is largest in layer {labels[most]}: attention lies {mean[most]:.1f} "
            f"tokens back on average{of_texts if texts > 1 else ''}, uniform attention would lie "
            f"{self.even[most]:.1f} back.",
            figure=Figure(
                "Distance by layer",
                bars(
                    [
                        Series("attention", labels, mean, low, high),
                        Series("uniform attention over the same pattern", labels, self.even),
                    ],
                    "layer",
                    "tokens back, weighted by attention",
                ),
                f"{texts} texts of {self.weights.shape[1]} tokens; whiskers: 80 % of the texts.",
                self.table(),
            ),
        )

    def parts(self) -> list[Part]:
        """The maps themselves."""
        layer = len(self.weights)
        mass = self.weights[-1].mean(0)
        return [
            Figure(
                "Attention maps",
                self.figure(),
                "Mean over texts and heads, one layer at a time. In the data: mean mass "
                f"that keys of layer {layer} ({self.patterns[-1]}) receive.",
                records({"layer": [layer], "key": range(len(mass))}, {"mean mass": mass}),
            ),
        ]
