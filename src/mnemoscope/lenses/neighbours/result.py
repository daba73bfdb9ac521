"""What nearest neighbours share: options, result and page of the lens.

Shapes: S sites, k neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pydantic import Field

from mnemoscope.core.arrays import Floats
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.lenses.extremes import Extremes, band, differences
from mnemoscope.lenses.lens import MOST, Part, Records, Result, SiteOptions, by_site, records
from mnemoscope.plots.figure import Plot, Reference
from mnemoscope.report.claims import Claim
from mnemoscope.report.document import Figure, Finding, finding

TITLES = {
    "token": "share of neighbours that are the same token",
    "position": "mean distance in position of neighbours",
    "left": "share of neighbours with the same token to the left",
    "right": "share of neighbours with the same token to the right",
    "label": "share of neighbours of other kinds with the same label",
}

# By which sites must differ: one neighbour in fifty, half a token of position.
LEAST = {"token": 0.02, "position": 0.5, "left": 0.02, "right": 0.02, "label": 0.02}
NEARLY = 0.99


class NeighboursOptions(SiteOptions):
    """How many neighbours, among how many tokens."""

    k: int = Field(10, ge=1, le=MOST, description="nearest neighbours of every token")
    samples: int = Field(5000, ge=2, le=MOST, description="tokens among which they are found")


@dataclass(frozen=True, eq=False)
class NeighboursResult(Result):
    """By what is asked (token, position, left, right): value, error and null at S sites.

    Token is asked among all tokens, and so is label, where labels were captured, among those of
    other kinds; the others among occurrences of one token, for tokens with
    more than k of them. ``ceiling`` is the best share of same tokens that was possible, as rare
    tokens have fewer than k twins. The null takes neighbours at random from the same candidates.
    """

    sites: tuple[str, ...]
    k: int
    value: dict[str, Floats]
    error: dict[str, Floats]
    null: dict[str, float]
    ceiling: float
    samples: int

    def table(self) -> Records:
        """One row per question and site."""
        ceiling = [[self.ceiling if what == "token" else None] for what in self.value]
        return records(
            {"asked": list(self.value), "site": self.sites},
            {
                "value": list(self.value.values()),
                "error": [self.error[what] for what in self.value],
                "null": [[self.null[what]] for what in self.value],
                "ceiling": np.array(ceiling, dtype=object),
                "k": self.k,
                "samples": self.samples,
            },
        )

    def figure(self, what: str = "token") -> Plot:
        """One question, by site."""
        if what not in self.value:
            raise UserError(f"{what!r} was not asked; {suggestion(what, self.value)}")
        references = [Reference(self.null[what], "null: neighbours at random")]
        if what == "token":
            references.append(Reference(self.ceiling, "best possible"))
        curve = band(self.value[what], self.error[what])
        return by_site({what: curve}, self.sites, "site", TITLES[what], references=references)

    def extremes(self, what: str) -> Extremes:
        """The sites with the most and with the least."""
        return Extremes(self.sites, *band(self.value[what], self.error[what]), LEAST[what])

    def claim(self, what: str) -> Claim:
        """Whether some site has more than another, two standard errors taken off."""
        ends = self.extremes(what)
        full = what == "token" and np.nanmin(self.value[what]) >= NEARLY * self.ceiling
        return ends.claim(
            f"{ends.largest} has a greater {TITLES[what]} than {ends.smallest}",
            "tokens" if what == "position" else "",
            ceiling="every site is at the best possible" if full else "",
        )

    def finding(self) -> Finding:
        """Where neighbours are the same token, and where they are not."""
        share = f"the share of the {self.k} nearest neighbours that are the same token"
        seen = self.claim("token").verdict == "seen"
        return finding(
            self.extremes("token").sentence(share, "Sites", "at", seen),
            f"At random it would be {self.null['token']:.3g}; at most {self.ceiling:.3g} was "
            "possible.",
            figure=self._drawn("token"),
        )

    def parts(self) -> list[Part]:
        """Every question, and a figure for all but the first."""
        asked = [what for what, values in self.value.items() if not np.isnan(values).all()]
        silent = [TITLES[what] for what in self.value if what not in asked]
        return [
            f"The {self.k} nearest neighbours of each of {self.samples} tokens, by Euclidean "
            "distance after every dimension was given unit variance.",
            *(
                f"No token occurs more than {self.k} times, so nothing can be said of the {title}."
                for title in silent
            ),
            differences([self.claim(what) for what in asked]),
            *(self._drawn(what) for what in asked if what != "token"),
        ]

    def _drawn(self, what: str) -> Figure:
        return Figure(
            f"Neighbours by {what}",
            self.figure(what),
            "Band: two standard errors over tokens.",
            [row for row in self.table() if row["asked"] == what],
        )
