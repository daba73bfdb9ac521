"""How far apart sites are: options, result and page of the lens.

Shapes: P pairs of sites, S sites.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field

from mnemoscope.core.arrays import Floats
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.lenses.extremes import Extremes, band, differences
from mnemoscope.lenses.lens import Part, Records, Result, SiteOptions
from mnemoscope.plots.figure import Plot, Reference, Series, bars, heatmap
from mnemoscope.report.claims import Claim, Gate
from mnemoscope.report.document import Figure, Finding, finding

# Below this many samples a dimension, distances are mostly bias: about 0.85 √(d/n) for PWCCA.
ENOUGH = 10
# By which distances must differ, beyond two standard errors; another seed of a model moves more.
LEAST = 0.01
# What is written out, of the names that are typed.
LABELS = {"pwcca": "PWCCA", "cka": "CKA", "procrustes": "Procrustes"}


def enough(per_dimension: float) -> Gate:
    """Distances of the CCA kind are compared only with so many samples."""
    return Gate(f"{ENOUGH} samples a dimension", [per_dimension - ENOUGH])


def warnings(per_dimension: float) -> list[str]:
    """What a finding says where there were too few."""
    if per_dimension >= ENOUGH:
        return []
    return [
        f"There are {per_dimension:.1f} tokens for each dimension: below {ENOUGH}, distances of "
        "the CCA kind are mostly bias, so nothing is concluded from them."
    ]


class SimilarityOptions(SiteOptions):
    """Which sites are compared."""

    pairs: Literal["all", "adjacent"] = Field("all", description="of sites that are compared")


@dataclass(frozen=True, eq=False)
class SimilarityResult(Result):
    """Distances of P pairs of sites.

    sites, pairs   names of the sites, and which were compared
    distance       (P,) by measure; "pwcca" is the mean of "pwcca_left" and "pwcca_right", which
                   take their weights from one side
    error          (P,) by measure: standard error by leaving out each quarter of the batches
    null           (P,) by measure: what the same samples, paired at random, would give
    samples        how many tokens
    widths, ranks  by site: dimensions, and those that vary
    """

    sites: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    distance: dict[str, Floats]
    error: dict[str, Floats]
    null: dict[str, Floats]
    samples: int
    widths: dict[str, int]
    ranks: dict[str, int]

    @property
    def per_dimension(self) -> float:
        """Samples for each dimension of the widest site."""
        return self.samples / max(self.widths.values())

    def table(self) -> Records:
        """One row per pair and measure."""
        return [
            {
                "left": left,
                "right": right,
                "measure": measure,
                "distance": float(values[p]),
                "error": float(self.error[measure][p]),
                "null": float(self.null[measure][p]),
                "samples": self.samples,
                "samples per dimension": self.per_dimension,
                "rank left": self.ranks[left],
                "rank right": self.ranks[right],
            }
            for measure, values in self.distance.items()
            for p, (left, right) in enumerate(self.pairs)
        ]

    def matrix(self, measure: str = "pwcca") -> Floats:
        """Distances of all sites with all, (S, S), NaN where nothing was compared."""
        number_of = {name: number for number, name in enumerate(self.sites)}
        found = np.full((len(number_of), len(number_of)), np.nan)
        np.fill_diagonal(found, 0)
        for value, (left, right) in zip(self.distance[measure], self.pairs, strict=True):
            i, j = number_of[left], number_of[right]
            found[i, j] = found[j, i] = value
        return found

    def figure(self, measure: str = "pwcca") -> Plot:
        """A few pairs as bars beside their null, many as a matrix."""
        if measure not in self.distance:
            raise UserError(f"unknown measure {measure!r}; {suggestion(measure, self.distance)}")
        if len(self.pairs) > len(self.sites):
            span = (0.0, float(max(np.mean(self.null[measure]), np.nanmax(self.matrix(measure)))))
            title = f"{measure} (null {np.mean(self.null[measure]):.2f})"
            sites = list(self.sites)
            return heatmap(self.matrix(measure), sites, sites, "", "", title, z_range=span)
        labels = [f"{left} – {right}" for left, right in self.pairs]
        values = band(self.distance[measure], self.error[measure])
        return bars(
            [Series(measure, labels, *values)],
            "sites",
            f"distance ({measure})",
            references=[Reference(float(np.mean(self.null[measure])), "null: paired at random")],
        )

    def extremes(self, measure: str) -> Extremes:
        """The farthest and the nearest pair."""
        names = [" and ".join(pair) for pair in self.pairs]
        return Extremes(names, *band(self.distance[measure], self.error[measure]), LEAST)

    def claim(self, measure: str) -> Claim:
        """Whether the farthest pair is farther apart than the nearest, errors taken off."""
        ends = self.extremes(measure)
        text = f"By {measure}, {ends.largest} are farther apart than {ends.smallest}"
        return ends.claim(text, gates=(enough(self.per_dimension),) if "cca" in measure else ())

    def finding(self) -> Finding:
        """The farthest and the nearest pair by PWCCA."""
        seen = self.claim("pwcca").verdict == "seen"
        ends = self.extremes("pwcca")
        return finding(
            ends.sentence("the PWCCA distance", "Pairs of sites", "between", seen),
            f"Tokens paired at random would give {np.mean(self.null['pwcca']):.3g}.",
            *warnings(self.per_dimension),
            figure=self._drawn("pwcca"),
        )

    def parts(self) -> list[Part]:
        """What three of the measures say, with a figure for two more."""
        measures = ("pwcca", "cka", "procrustes")
        claims = [self.claim(measure) for measure in measures if len(self.pairs) > 1]
        return [
            f"{self.samples} tokens, {self.per_dimension:.1f} for each dimension of the widest "
            f"site. Distances of the CCA kind say little below {ENOUGH}.",
            *([differences(claims)] if claims else []),
            *map(self._drawn, measures[1:]),
        ]

    def _drawn(self, measure: str) -> Figure:
        return Figure(
            f"Distance by {LABELS.get(measure, measure)}",
            self.figure(measure),
            "0 = the same up to what the measure ignores. Paired at random, tokens would give "
            f"{np.mean(self.null[measure]):.3f}.",
            [row for row in self.table() if row["measure"] == measure],
        )
