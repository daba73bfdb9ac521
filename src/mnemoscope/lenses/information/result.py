"""What layers know of what was read: options, result and page of the lens.

Shapes: S sites, R seeds of the clustering.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from mnemoscope.core.arrays import Floats
from mnemoscope.core.config import DISTINCT
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.lenses.lens import MOST, Part, Records, Result, SiteOptions, by_site, records
from mnemoscope.plots.figure import Plot, Reference, heatmap
from mnemoscope.report.document import Figure

NAMES = {"next": "next token", "previous": "token before"}
Target = Literal["token", "next", "previous", "position"]


class InformationOptions(SiteOptions):
    """What layers are asked to know."""

    targets: Annotated[tuple[Target, ...], DISTINCT] = Field(
        ("token", "next", "previous", "position"), min_length=1, description="what is asked about"
    )
    clusters: int | None = Field(
        None, ge=2, le=MOST, description="per site; by default one for 50 tokens, at most 1000"
    )
    types: int = Field(1000, ge=2, le=MOST, description="so many most frequent tokens count")
    seeds: int = Field(3, ge=1, le=100, description="clusterings of every site")


@dataclass(frozen=True, eq=False)
class InformationResult(Result):
    """Nats that the cluster of a vector tells, by target and site.

    value, null, error, adjusted   (S, R) by target, see `entropy.Mutual`
    entropy           by target: the most that there is to know
    samples           by target: tokens that counted
    cluster_entropy   (S, R)
    inertia           (S, R) share of the variance that the clusters leave
    between           (S, S) nats between sites less their null, mean over seeds
    """

    sites: tuple[str, ...]
    clusters: int
    value: dict[str, Floats]
    null: dict[str, Floats]
    error: dict[str, Floats]
    adjusted: dict[str, Floats]
    entropy: dict[str, float]
    samples: dict[str, int]
    cluster_entropy: Floats
    inertia: Floats
    between: Floats

    def interval(self, target: str) -> tuple[Floats, Floats]:
        """Where the nats lie, (S,) each: from the lowest seed less its null to the highest seed.

        Few samples let the plug-in estimate find too much, at most about the null; two standard
        errors are added on both sides.
        """
        value, error = self.value[target], self.error[target]
        low = (value - self.null[target] - 2 * error).min(1)
        return low.clip(min=0), (value + 2 * error).max(1)

    def table(self) -> Records:
        """One row per target, site and seed."""
        targets, seeds = list(self.value), range(self._seeds)

        def stacked(values: Mapping[str, Any]) -> Floats:
            found = np.array([values[target] for target in targets])
            return found.reshape(*found.shape, *(1,) * (3 - found.ndim))

        return records(
            {"target": targets, "site": self.sites, "seed": seeds},
            {
                "nats": stacked(self.value),
                "null": stacked(self.null),
                "error": stacked(self.error),
                "adjusted": stacked(self.adjusted),
                "entropy": stacked(self.entropy),
                "cluster entropy": self.cluster_entropy,
                "inertia": self.inertia,
                "clusters": self.clusters,
                "samples": stacked(self.samples),
            },
        )

    def figure(self, target: str = "token") -> Plot:
        """Nats by site: the mean of the seeds with the interval, and the null below."""
        if target not in self.value:
            raise UserError(f"{target!r} was not asked for; {suggestion(target, self.value)}")
        low, high = self.interval(target)
        null = self.null[target]
        curves = {
            target: (self.value[target].mean(1), low, high),
            "null: shuffled": (null.mean(1), null.min(1), null.max(1)),
        }
        return by_site(
            curves,
            self.sites,
            "site",
            f"nats about the {target}",
            references=[Reference(self.entropy[target], "all there is to know")],
            y_range=(0, self.entropy[target] * 1.06),
        )

    def between_figure(self) -> Plot:
        """Nats that sites tell about each other."""
        sites = list(self.sites)
        return heatmap(self.between, sites, sites, "", "", "nats less null")

    def parts(self) -> list[Part]:
        """A figure for every target, then what sites tell about each other."""
        rows = self.table()
        parts: list[Part] = [
            f"Vectors of every site were put into {self.clusters} clusters, {self._seeds} times; "
            "shown is what the cluster tells, in nats. The band reaches from the lowest seed less "
            "its null to the highest seed."
        ]
        for target, values in self.value.items():
            word, value = NAMES.get(target, target), values.mean(1)
            best, worst = int(value.argmax()), int(value.argmin())
            parts += [
                f"Of the {word}, {self.sites[best]} knows most ({value[best]:.2f} nats of "
                f"{self.entropy[target]:.2f}) and {self.sites[worst]} least ({value[worst]:.2f}); "
                f"null {self.null[target].mean():.2f}.",
                Figure(
                    f"Information about the {word}",
                    self.figure(target),
                    f"{self.samples[target]} tokens.",
                    [row for row in rows if row["target"] == target],
                ),
            ]
        matrix = records({"left": self.sites, "right": self.sites}, {"nats": self.between})
        caption = "Less what shuffled clusters tell; the diagonal is the entropy of the clusters."
        parts.append(Figure("Information between sites", self.between_figure(), caption, matrix))
        return parts

    @property
    def _seeds(self) -> int:
        return int(self.inertia.shape[1])
