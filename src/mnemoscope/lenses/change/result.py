"""How much tokens change, or change each other, by group: options, result and page.

Shapes: G groups, P steps from one site to the next, or layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from mnemoscope.core.arrays import Floats
from mnemoscope.lenses.lens import MOST_TOKENS, Part, Records, Result, SiteOptions, by_site, records
from mnemoscope.plots.figure import Plot
from mnemoscope.report.document import Figure


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
        """One line a group, with twice the standard error as band."""
        curves = {
            group: (value, value - 2 * error, value + 2 * error)
            for group, value, error in zip(self.groups, self.distance, self.error, strict=True)
        }
        return by_site(curves, self.steps, "", f"{self.what} (PWCCA distance)")

    def parts(self) -> list[Part]:
        """One figure, and the groups that were too small for it."""
        left_out = ", ".join(f"{group} ({count})" for group, count in self.left_out.items())
        mean = self.distance.mean(1)
        most, least = self.groups[int(mean.argmax())], self.groups[int(mean.argmin())]
        caption = "Band: two standard errors."
        caption += " Rank 1 is the most frequent token." if self.by == "frequency" else ""
        title = f"{self.what.capitalize()} by {self.by}"
        return [
            f"{self.samples} tokens of every group, {self.per_dimension:.1f} for each "
            "dimension. "
            + (f"Groups with fewer tokens were left out: {left_out}." if left_out else ""),
            f"The most {self.what} is that of {most} ({mean.max():.4f} in the mean over "
            f"layers), the least that of {least} ({mean.min():.4f}); paired at random: "
            f"{self.null.mean():.4f}.",
            Figure(title, self.figure(), caption, self.table()),
        ]
