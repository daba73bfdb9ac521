"""Occurrences of a few tokens, drawn site by site: options, result and page of the lens.

Shapes: n occurrences, S sites.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pydantic import Field

from mnemoscope.core.arrays import Floats, Ints
from mnemoscope.lenses.lens import MOST, Part, Records, Result, SiteOptions, records
from mnemoscope.plots.figure import SERIES, SYMBOLS, Plot, template
from mnemoscope.report.document import Figure


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
        import plotly.graph_objects as go

        kinds = list(dict.fromkeys(self.words))
        words = np.array(self.words)

        def dots(site: int) -> list[dict[str, object]]:
            return [
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": kind.replace("<", "&lt;"),
                    "x": self.coordinates[site, words == kind, 0],
                    "y": self.coordinates[site, words == kind, 1],
                    "text": [f"position {one}" for one in self.positions[words == kind]],
                    "marker": {
                        "color": SERIES[number % len(SERIES)],
                        "symbol": SYMBOLS[number % len(SYMBOLS)],
                        "size": 6,
                        "opacity": 0.7,
                    },
                }
                for number, kind in enumerate(kinds)
            ]

        reach = float(np.abs(self.coordinates).max()) * 1.08
        steps = [
            {
                "label": f"{site} ({share:.0%})",
                "method": "animate",
                "args": [[site], {"mode": "immediate", "frame": {"duration": 0, "redraw": True}}],
            }
            for site, share in zip(self.sites, self.explained, strict=True)
        ]
        axis = {"range": [-reach, reach]}
        layout = {
            "template": template(),
            "height": 520,
            "xaxis": axis | {"title": {"text": "first component"}},
            "yaxis": axis | {"title": {"text": "second component"}},
            "sliders": [{"steps": steps, "pad": {"t": 60}, "currentvalue": {"prefix": "site: "}}],
        }
        frames = [{"name": site, "data": dots(number)} for number, site in enumerate(self.sites)]
        return go.Figure(data=dots(0), layout=layout, frames=frames)

    def parts(self) -> list[Part]:
        """One figure with a slider."""
        kinds = {word: self.words.count(word) for word in dict.fromkeys(self.words)}
        counted = ", ".join(f"{word!r} ({count} times)" for word, count in kinds.items())
        best = int(self.explained.argmax())
        return [
            f"Drawn are {counted}. Two components hold most of the variance at "
            f"{self.sites[best]}: {self.explained[best]:.0%}; vectors without any "
            f"structure would have {self.even:.0%} or little more.",
            Figure(
                "Occurrences",
                self.figure(),
                "Principal components after every dimension was given unit variance, "
                "rotated to follow the site before.",
                self.table(),
            ),
        ]
