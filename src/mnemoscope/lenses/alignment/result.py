"""Attention of a decoder on the source: result and page of the lens.

Shapes: L layers with cross-attention, T target tokens, S source tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

from mnemoscope.core.arrays import Floats
from mnemoscope.lenses.lens import Part, Records, Result
from mnemoscope.plots.figure import Plot, heatmap
from mnemoscope.report.document import Figure, Table


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
        return heatmap(shown, self.source, self.target, "source", "said", "weight", z_range=(0, 1))

    def table(self, layer: int = -1) -> Records:
        """One row per target and source token."""
        return [
            {"said": said, "position": t, "source": word, "word": s, "weight": float(value)}
            for t, (said, row) in enumerate(zip(self.target, self.weights[layer], strict=True))
            for s, (word, value) in enumerate(zip(self.source, row, strict=True))
        ]

    def parts(self) -> list[Part]:
        """How sharp every layer is, and the matrix of one sentence."""
        best = int(self.sharpness.argmax())
        rows = [
            [layer + 1, float(sharp), float(error), self.even]
            for layer, (sharp, error) in enumerate(zip(self.sharpness, self.error, strict=True))
        ]
        return [
            f"Layer {best + 1} is the sharpest: of the attention of a target token "
            f"{self.sharpness[best]:.2f} ± {2 * self.error[best]:.2f} goes to one source "
            f"token, in the mean over {self.sentences} sentences; even attention would "
            f"give it {self.even:.2f}.",
            Table(
                "Sharpness by layer",
                ["layer", "sharpness", "error", "even"],
                rows,
                "Share of the attention on the source token that gets most; error: "
                "standard error over sentences.",
            ),
            Figure(
                "Alignment",
                self.figure(best),
                f"Attention of layer {best + 1}, mean over heads, in the last sentence.",
                self.table(best),
            ),
        ]
