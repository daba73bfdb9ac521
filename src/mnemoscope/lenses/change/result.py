"""How much tokens change, or change each other, by group: options, result and page.

Shapes: G groups, P steps from one site to the next, or layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import Field

from mnemoscope.core.arrays import Floats
from mnemoscope.lenses.extremes import Extremes, band, differences
from mnemoscope.lenses.lens import MOST_TOKENS, Part, Records, Result, SiteOptions, by_site, records
from mnemoscope.lenses.similarity.result import enough, warnings
from mnemoscope.plots.figure import Plot, Reference
from mnemoscope.report.claims import Claim
from mnemoscope.report.document import Figure, Finding, finding

# Share by which distances of two groups must differ.
LEAST = 0.1
# A null so many times as large as all distances is not drawn to scale with them.
FAR = 3


class GroupedOptions(SiteOptions):
    """Which tokens are compared, and how many of each group."""

    samples: int | None = Field(
        None,
        ge=2,
        le=MOST_TOKENS,
        description="tokens per group; by default as many as the four largest groups have",
    )
    tags: Path | list[list[str]] | None = Field(
        None,
        description="a file with a line of tags for every line of the text, to group tokens by "
        "instead of by frequency",
    )


@dataclass(frozen=True, eq=False)
class GroupedResult(Result):
    """PWCCA distances by group, every group with the same number of samples.

    groups, steps   names of both
    distance        (G, P), the mean of both directions
    error           (G, P) standard error
    null            (G, P) what the same samples, paired at random, would give
    samples         for every group
    left_out        groups that had too few tokens, and how many they had
    what            "change" or "influence"
    by              what tokens were grouped by
    """

    groups: tuple[str, ...]
    steps: tuple[str, ...]
    distance: Floats
    error: Floats
    null: Floats
    samples: int
    per_dimension: float
    left_out: dict[str, int]
    what: str
    by: str

    def table(self) -> Records:
        """One row per group and step."""
        return records(
            {"group": self.groups, "step": self.steps},
            {
                self.what: self.distance,
                "error": self.error,
                "null": self.null,
                "samples": self.samples,
                "samples per dimension": self.per_dimension,
            },
        )

    def figure(self) -> Plot:
        """One line a group, with twice the standard error as band, and the null."""
        curves = {
            group: band(value, error)
            for group, value, error in zip(self.groups, self.distance, self.error, strict=True)
        }
        random, top = float(self.null.mean()), float((self.distance + 2 * self.error).max())
        # Small distances are not pressed flat for a null that the legend tells as well.
        span = (-0.05 * top, 1.1 * top) if random > FAR * top else None
        return by_site(
            curves,
            self.steps,
            "",
            f"{self.what} (PWCCA distance)",
            references=[Reference(random, f"null: paired at random ({random:.2g})")],
            y_range=span,
        )

    def extremes(self) -> Extremes:
        """Of the groups, in the mean over steps; of one group alone, of its steps."""
        # All steps are those of the same tokens: in their mean, errors do not cancel.
        mean, error, names = self.distance.mean(1), self.error.mean(1), self.groups
        if len(self.groups) == 1:
            mean, error, names = self.distance[0], self.error[0], self.steps
        return Extremes(names, *band(mean, error), LEAST * float(mean.min()))

    def claim(self) -> Claim:
        """Whether one group has more than another at every step, beyond two standard errors."""
        mean = self.distance.mean(1)
        most, least = int(mean.argmax()), int(mean.argmin())
        low = self.distance[least]
        noise = 2 * np.hypot(self.error[most], self.error[least])
        apart = (self.distance[most] - low - noise) / np.where(low > 0, low, np.nan)
        return Claim(
            f"{self.groups[most]} has more {self.what} than {self.groups[least]} at every step",
            apart,
            LEAST,
            "of the smaller, two standard errors taken off",
            (enough(self.per_dimension),),
        )

    def finding(self) -> Finding:
        """Which group has most and which least; of one group alone, at which step."""
        ends, several = self.extremes(), len(self.groups) > 1
        seen = ends.claim("", gates=(enough(self.per_dimension),)).verdict == "seen"
        kind = {"frequency": "for frequency", "tag": "for the tag"}
        random = f"Tokens paired at random would give {self.null.mean():.3g}"
        if (self.distance + 2 * np.nan_to_num(self.error) >= self.null).any():
            random += ", from which some of these are not distinguishable"
        caption = (
            "Bands: two standard errors, from leaving out a quarter of the batches at a time. "
            "Null: what the same tokens would give if they were paired at random."
        )
        caption += " Rank 1 is the most frequent token." if self.by == "frequency" else ""
        return finding(
            ends.sentence(
                f"the {self.what} (PWCCA distance{', mean over layers' if several else ''})",
                "Groups of tokens" if several else "Layers",
                kind.get(self.by, "for") if several else "at",
                seen,
            ),
            f"{random}.",
            *warnings(self.per_dimension),
            figure=Figure(
                f"{self.what.capitalize()} by {self.by}", self.figure(), caption, self.table()
            ),
        )

    def parts(self) -> list[Part]:
        """How many tokens there were, and whether the order holds at every step."""
        left_out = ", ".join(f"{group} ({count})" for group, count in self.left_out.items())
        return [
            f"{self.samples} tokens of every group, {self.per_dimension:.1f} for each dimension."
            + (f" Groups with fewer tokens were left out: {left_out}." if left_out else ""),
            *([differences([self.claim()])] if len(self.groups) > 1 else []),
        ]
