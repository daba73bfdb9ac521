"""What the words of a translation depend on: result and page of the lens.

Shapes: S source tokens, T target tokens, N sentences.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.core.statistics import standard_error
from mnemoscope.lenses.alignment.result import TALLEST
from mnemoscope.lenses.lens import Part, Records, Result, records
from mnemoscope.plots.figure import MUTED, Plot, heatmap
from mnemoscope.report.document import Figure, Finding, Table, finding


@dataclass(frozen=True, eq=False)
class ReachResult(Result):
    """Where the gradient of what is said goes, in the sentence that was read last.

    influence     (T, S + T) shares; columns are the source, then the target as it is read: the
                  start ▷, then all but the last
    from_source   (N,) share of the gradient that goes to the source, by sentence
    even          (N,) the same if all tokens that may be read mattered alike: the null
    """

    source: tuple[str, ...]
    read: tuple[str, ...]
    said: tuple[str, ...]
    influence: Floats
    from_source: Floats
    even: Floats

    def figure(self) -> Plot:
        """What is said downwards, what it may have come from across; white is exactly nothing."""
        columns = [f"{word} " for word in self.source] + list(self.read)
        title = "source, then target so far"
        figure = heatmap(self.influence, columns, self.said, title, "said", "share")
        figure.add_vline(x=len(self.source) - 0.5, line={"color": MUTED, "width": 1.2})
        return figure.update_layout(height=min(figure.layout.height, TALLEST))

    def table(self) -> Records:
        """One row per word said and token read."""
        columns = [("source", word) for word in self.source] + [("target", w) for w in self.read]
        return [
            {"said": said, "position": t, "side": side, "token": token, "share": float(value)}
            for t, (said, row) in enumerate(zip(self.said, self.influence, strict=True))
            for (side, token), value in zip(columns, row, strict=True)
        ]

    def finding(self) -> Finding:
        """How much comes from the source, and whether anything comes from what is still unsaid."""
        mean, equal, count = self.from_source.mean(), self.even.mean(), len(self.from_source)
        error = 2 * float(standard_error(self.from_source))
        apart = self.from_source - self.even
        seen = count > 1 and abs(apart.mean()) > 2 * float(standard_error(apart))
        sentences = f"{count} sentences" if count > 1 else "one sentence, so its spread is unknown"
        spread = f" ± {error:.2f}" if count > 1 else ""
        later = np.triu(self.influence[:, len(self.source) :], 1).sum() / len(self.influence)
        return finding(
            f"Of the gradient of a target token, {mean:.2f}{spread} goes to the source, on average "
            f"over {sentences}; if all tokens read so far counted alike, {equal:.2f} would"
            + ("." if seen or count == 1 else ", from which it is not distinguishable."),
            "In the last sentence no gradient goes to target tokens that come later: the decoder "
            "sees only what it has said."
            if not later
            else f"In the last sentence {later:.3f} of the gradient goes to target tokens that "
            "come later: the decoder sees what it is asked to predict.",
            figure=Figure(
                "Reach",
                self.figure(),
                "Share of the gradient, row by row, in the last sentence: the source, then the "
                "target as it is read; ▁ is a space, ▷ the start, ∎ the end.",
                self.table(),
            ),
        )

    def parts(self) -> list[Part]:
        """Every sentence."""
        sentences = range(1, len(self.from_source) + 1)
        columns = {"from the source": self.from_source, "all tokens alike": self.even}
        rows = records({"sentence": sentences}, columns)
        return [
            Table(
                "Gradient to the source by sentence",
                list(rows[0]),
                [list(row.values()) for row in rows],
                "Share of the gradient of target tokens, and what it would be if all tokens read "
                "so far counted alike.",
            ),
        ]
