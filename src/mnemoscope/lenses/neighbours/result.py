"""What nearest neighbours share: options, result and page of the lens.

Shapes: S sites, k neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pydantic import Field

from mnemoscope.core.arrays import Floats
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.lenses.lens import MOST, Part, Records, Result, SiteOptions, by_site, records
from mnemoscope.plots.figure import Plot, Reference
from mnemoscope.report.document import Figure

TITLES = {
    "token": "share of neighbours that are the same token",
    "position": "mean distance in position of neighbours",
    "left": "share of neighbours with the same token to the left",
    "right": "share of neighbours with the same token to the right",
}


class NeighboursOptions(SiteOptions):
    """How many neighbours, among how many tokens."""

    k: int = Field(10, ge=1, le=MOST, description="nearest neighbours of every token")
    samples: int = Field(5000, ge=2, le=MOST, description="tokens among which they are found")


@dataclass(frozen=True, eq=False)
class NeighboursResult(Result):
    """By what is asked (token, position, left, right): value, error and null at S sites.

    Token is asked among all tokens; the others among occurrences of one token, for tokens with
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
        ceiling = [[self.ceiling if what == "token" else ""] for what in self.value]
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
        value, error = self.value[what], self.error[what]
        references = [Reference(self.null[what], "null: neighbours at random")]
        if what == "token":
            references.append(Reference(self.ceiling, "best possible"))
        curve = value, value - 2 * error, value + 2 * error
        return by_site({what: curve}, self.sites, "site", TITLES[what], references=references)

    def parts(self) -> list[Part]:
        """A figure for each of the questions."""
        rows = self.table()
        parts: list[Part] = [
            f"The {self.k} nearest neighbours of each of {self.samples} tokens, by Euclidean "
            "distance after every dimension was given unit variance."
        ]
        for what, values in self.value.items():
            if np.isnan(values).all():
                parts.append(f"No token occurs more than {self.k} times: no word on {what}.")
                continue
            most, least = int(np.nanargmax(values)), int(np.nanargmin(values))
            parts += [
                f"{TITLES[what].capitalize()}: most at {self.sites[most]} ({values[most]:.2f}), "
                f"least at {self.sites[least]} ({values[least]:.2f}); neighbours at random: "
                f"{self.null[what]:.2f}.",
                Figure(
                    f"Neighbours by {what}",
                    self.figure(what),
                    "Band: two standard errors over tokens.",
                    [row for row in rows if row["asked"] == what],
                ),
            ]
        return parts
