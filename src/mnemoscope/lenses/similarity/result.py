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
from mnemoscope.lenses.lens import Part, Records, Result, SiteOptions
from mnemoscope.plots.figure import Plot, Reference, Series, bars, heatmap
from mnemoscope.report.document import Figure

# Below this many samples a dimension, distances are mostly bias: about 0.85 √(d/n) for PWCCA.
ENOUGH = 10


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
        values, error = self.distance[measure], self.error[measure]
        return bars(
            [Series(measure, labels, values, values - 2 * error, values + 2 * error)],
            "sites",
            f"distance ({measure})",
            references=[Reference(float(np.mean(self.null[measure])), "null: paired at random")],
        )

    def parts(self) -> list[Part]:
        """A figure for three of the measures."""
        rows = self.table()
        parts: list[Part] = [
            f"{self.samples} tokens, {self.per_dimension:.1f} for each dimension of the widest "
            f"site. Distances of the CCA kind say little below {ENOUGH}."
        ]
        for measure in ("pwcca", "cka", "procrustes"):
            values = self.distance[measure]
            near, far = int(np.nanargmin(values)), int(np.nanargmax(values))
            parts += [
                f"By {measure}, the nearest are {' and '.join(self.pairs[near])} "
                f"({values[near]:.3f}), the farthest {' and '.join(self.pairs[far])} "
                f"({values[far]:.3f}); paired at random: {np.mean(self.null[measure]):.3f}.",
                Figure(
                    f"Distance by {measure}",
                    self.figure(measure),
                    "0 = the same up to what the measure ignores.",
                    [row for row in rows if row["measure"] == measure],
                ),
            ]
        return parts
