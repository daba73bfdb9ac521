"""Occurrences of a few tokens, drawn site by site: options, result and page of the lens.

Shapes: n occurrences, S sites.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pydantic import Field

from mnemoscope.core.arrays import Floats, Ints
from mnemoscope.lenses.extremes import Extremes, band
from mnemoscope.lenses.lens import MOST, Part, Records, Result, SiteOptions, records
from mnemoscope.plots.figure import Plot, Series, lines
from mnemoscope.plots.images import slider
from mnemoscope.report.document import Figure, Finding, Table, finding

# By which sites must differ, beyond two standard errors: one dot in fifty.
LEAST = 0.02
# Dots whose nearest one is sought at most.
COMPARED = 2000


class OccurrencesOptions(SiteOptions):
    """Which tokens are drawn."""

    words: tuple[str, ...] | None = Field(
        None, description="tokens as the model spells them; by default the four most frequent"
    )
    samples: int = Field(1000, ge=3, le=MOST, description="occurrences drawn at most")


@dataclass(frozen=True, eq=False)
class OccurrencesResult(Result):
    """Where each occurrence lies.

    words         (n,) which token it is
    positions     (n,) where in its text it stands
    coordinates   (S, n, 2) its two principal components at every site, rotated to follow the site
                  before, since the sign and order of components mean nothing
    explained     (S,) share of the variance that the two components hold
    even          what they would hold if all dimensions of the narrowest site held the same
    """

    sites: tuple[str, ...]
    words: tuple[str, ...]
    positions: Ints
    coordinates: Floats
    explained: Floats
    even: float

    def table(self) -> Records:
        """One row per site and occurrence."""
        return records(
            {"site": self.sites, "token": self.words},
            {
                "position": self.positions,
                "x": self.coordinates[:, :, 0],
                "y": self.coordinates[:, :, 1],
                "explained": self.explained[:, None],
            },
        )

    def figure(self) -> Plot:
        """One dot an occurrence, one colour a token; the slider goes through the sites."""
        sites = zip(self.sites, self.explained, self.coordinates, strict=True)
        return slider(
            {f"{site} ({share:.0%})": self._dots(points) for site, share, points in sites}, "site"
        )

    def _dots(self, points: Floats) -> Plot:
        """One site: occurrences at points (n, 2)."""
        words, reach = np.array(self.words), 1.08 * float(np.abs(self.coordinates).max())
        which = {word: words == word for word in dict.fromkeys(self.words)}
        figure = lines(
            [Series(word, *points[chosen].T) for word, chosen in which.items()],
            "first component",
            "second component",
            y_range=(-reach, reach),
        )
        figure.update_traces(
            mode="markers", marker={"opacity": 0.7, "size": 6}, hovertemplate="%{text}"
        )
        for trace, chosen in zip(figure.data, which.values(), strict=True):
            trace.text = [f"position {one}" for one in self.positions[chosen]]
        figure.update_layout(hovermode="closest", xaxis_range=(-reach, reach), showlegend=True)
        return figure

    def alike(self) -> tuple[Extremes, float]:
        """Share of dots whose nearest other dot is the same token, by site, and that of any two."""
        _, words = np.unique(self.words[:COMPARED], return_inverse=True)
        share = np.zeros(len(self.sites))
        for site, points in enumerate(self.coordinates[:, :COMPARED]):
            apart = np.square(points[:, None] - points).sum(-1)
            np.fill_diagonal(apart, np.inf)
            share[site] = (words[apart.argmin(1)] == words).mean()
        error = np.sqrt(share * (1 - share) / len(words))
        twins = np.bincount(words)[words] - 1
        chance = float(twins.mean() / (len(words) - 1))
        return Extremes(self.sites, *band(share, error), LEAST), chance

    def finding(self) -> Finding:
        """Where occurrences of the same token lie together."""
        ends, chance = self.alike()
        share = "the share of dots whose nearest dot is the same token"
        said = [
            ends.sentence(share, "Sites", "at", ends.claim("").verdict == "seen"),
            f"For two dots at random it would be {chance:.3g}.",
        ]
        if len(set(self.words)) == 1:
            said = [f"All dots are {self.words[0]!r}: draw several tokens to see them part."]
        best = int(self.explained.argmax())
        held = (
            f"The two components hold most of the variance at {self.sites[best]}, "
            f"{self.explained[best]:.0%}; vectors without any structure would have "
            f"{self.even:.0%} or little more."
        )
        caption = (
            "Principal components after every dimension was given unit variance, rotated to follow "
            "the site before. In brackets: the share of the variance that they hold."
        )
        return finding(
            *said, held, figure=Figure("Occurrences", self.figure(), caption, self.table())
        )

    def parts(self) -> list[Part]:
        """What is drawn, and site by site how much the plane shows."""
        kinds = dict.fromkeys(self.words)
        counts = ", ".join(f"{word!r} ({self.words.count(word)} times)" for word in kinds)
        rows = zip(
            self.sites, self.alike()[0].values.tolist(), self.explained.tolist(), strict=True
        )
        return [
            f"Drawn are {counts}.",
            Table(
                "What the two components show",
                ["site", "nearest dot is the same token", "variance held"],
                [list(row) for row in rows],
                "Shares of all dots, and of the variance.",
            ),
        ]
