"""What the words of a translation depend on: result and page of the lens.

Shapes: S source tokens, T target tokens, N sentences.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.core.statistics import standard_error
from mnemoscope.lenses.lens import Part, Records, Result
from mnemoscope.plots.figure import Plot, heatmap
from mnemoscope.report.document import Figure


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
        return heatmap(self.influence, columns, self.said, title, "said", "share")

    def table(self) -> Records:
        """One row per word said and token read."""
        columns = [("source", word) for word in self.source] + [("target", w) for w in self.read]
        return [
            {"said": said, "position": t, "side": side, "token": token, "share": float(value)}
            for t, (said, row) in enumerate(zip(self.said, self.influence, strict=True))
            for (side, token), value in zip(columns, row, strict=True)
        ]

    def parts(self) -> list[Part]:
        """How much comes from the source, and the matrix of one sentence."""
        mean, error = float(self.from_source.mean()), float(standard_error(self.from_source))
        future = np.triu(self.influence[:, len(self.source) :], 1)
        ahead = "nothing" if not future.any() else f"{future.sum() / len(future):.3f}"
        return [
            f"Of the gradient of a token that is said, {mean:.2f} ± {2 * error:.2f} goes "
            f"to the source, in the mean over {len(self.from_source)} sentences; if all "
            f"tokens that may be read mattered alike it would be {self.even.mean():.2f}. "
            f"In the last sentence {ahead} goes to tokens that are still to come.",
            Figure(
                "Reach",
                self.figure(),
                "Share of the gradient, row by row, in the last sentence: the source, "
                "then the target as it is read.",
                self.table(),
            ),
        ]
