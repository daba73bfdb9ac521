"""Attention of a decoder on the source: result and page of the lens.

Shapes: L layers with cross-attention, T target tokens, S source tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.lenses.lens import Part, Records, Result, records
from mnemoscope.plots.figure import Plot, heatmap
from mnemoscope.report.document import Figure, Finding, Table, finding

# Least share of the attention by which one token must exceed equal attention to all.
LEAST_SHARPER = 0.05
# Pixels of a matrix that is to be seen below two sentences.
TALLEST = 480


@dataclass(frozen=True, eq=False)
class AlignmentResult(Result):
    """The matrix of one sentence, and how sharp all sentences were.

    source, target  tokens as text, ∎ is the end
    weights         (L, T, S), the mean over heads; each row adds up to one
    sharpness       (L,) share of the attention on the source token that gets most, mean over all
                    target tokens of all sentences
    error           (L,) its standard error over sentences
    even            the same if all tokens of a sentence got equal weight: the null
    sentences       how many were read
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: Floats
    sharpness: Floats
    error: Floats
    even: float
    sentences: int

    def figure(self, layer: int = -1) -> Plot:
        """One layer as a picture: target down, source across."""
        shown = self.weights[layer]
        figure = heatmap(
            shown, self.source, self.target, "source", "said", "weight", z_range=(0, 1)
        )
        return figure.update_layout(height=min(figure.layout.height, TALLEST))

    def table(self, layer: int = -1) -> Records:
        """One row per target and source token."""
        return [
            {"said": said, "position": t, "source": word, "word": s, "weight": float(value)}
            for t, (said, row) in enumerate(zip(self.target, self.weights[layer], strict=True))
            for s, (word, value) in enumerate(zip(self.source, row, strict=True))
        ]

    def finding(self) -> Finding:
        """How sharp the sharpest layer is, and its matrix of one sentence."""
        best = int(self.sharpness.argmax())
        sharp, error = float(self.sharpness[best]), 2 * float(self.error[best])
        several = self.sentences > 1
        spread = f" ± {error:.2f}" if several else ""
        over = (
            f"on average over {self.sentences} sentences" if several else "in the one sentence read"
        )
        unclear = several and sharp - error - self.even < LEAST_SHARPER
        weights = self.weights[best]
        t, s = np.unravel_index(weights.argmax(), weights.shape)
        return finding(
            f"Attention is sharpest in layer {best + 1}: a target token gives {sharp:.2f}{spread} "
            f"of it to one source token, {over}; equal attention to all would give {self.even:.2f}"
            + (", from which it is not distinguishable." if unclear else "."),
            f"In the last sentence the strongest link is from {_said(self.target[t])} to "
            f"{_said(self.source[s])}, with {weights[t, s]:.2f} of the attention.",
            figure=Figure(
                "Alignment",
                self.figure(best),
                f"Attention of layer {best + 1}, mean over heads, in the last sentence; ▁ is a "
                "space, ∎ the end.",
                self.table(best),
            ),
        )

    def parts(self) -> list[Part]:
        """How sharp every layer is."""
        layers = range(1, len(self.sharpness) + 1)
        columns = {"sharpness": self.sharpness, "error": self.error, "equal attention": self.even}
        rows = records({"layer": layers}, columns)
        return [
            Table(
                "Sharpness by layer",
                list(rows[0]),
                [list(row.values()) for row in rows],
                "Share of the attention on the source token that gets most; error: "
                "standard error over sentences.",
            ),
        ]


def _said(token: str) -> str:
    """A token in a sentence."""
    return {"∎": "the end", "▁": "a space"}.get(token, f"“{token.lstrip('▁')}”")
