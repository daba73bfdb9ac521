"""What layers know of what was read: options, result and page of the lens.

Shapes: S sites, R seeds of the clustering.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from mnemoscope.core.arrays import Floats
from mnemoscope.core.config import DISTINCT
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.lenses.extremes import Extremes, band, differences
from mnemoscope.lenses.lens import MOST, Part, Records, Result, SiteOptions, by_site, records
from mnemoscope.plots.figure import Plot, Reference, heatmap
from mnemoscope.report.claims import Claim
from mnemoscope.report.document import Figure, Finding, finding

# Beyond this share of its ceiling an estimate cannot say how much more there is.
NEARLY = 0.9
# Nats by which two sites must differ to be told apart: clusterings differ by about half as much.
LEAST = 0.05
NAMES = {"next": "next token", "previous": "token before"}
Target = Literal["token", "next", "previous", "position"]


class ClusterOptions(SiteOptions):
    """How vectors are clustered, and which tokens count."""

    clusters: int | None = Field(
        None,
        ge=2,
        le=MOST,
        description="per site; by default one for 50 tokens, at most 1000, and no fewer than kinds",
    )
    types: int = Field(1000, ge=2, le=MOST, description="so many most frequent tokens count")
    seeds: int = Field(3, ge=1, le=100, description="clusterings of every site")


class InformationOptions(ClusterOptions):
    """What layers are asked to know."""

    targets: Annotated[tuple[Target, ...], DISTINCT] = Field(
        ("token", "next", "previous", "position"), min_length=1, description="what is asked about"
    )


def beyond_chance(more: Floats, less: Floats, more_null: Floats, less_null: Floats) -> Floats:
    """How far one estimate lies above another, or below it, less what chance may have added.

    Clusters of more even sizes find more in shuffled tokens too, so the null often rises with
    depth: a difference that the null shows as well is none.
    """
    apart, chance = more - less, more_null - less_null
    alike = np.where(np.sign(apart) == np.sign(chance), np.abs(chance), 0.0)
    beyond: Floats = np.sign(apart) * (np.abs(apart) - alike).clip(min=0)
    return beyond


@dataclass(frozen=True, eq=False)
class InformationResult(Result):
    """Nats that the cluster of a vector tells, by target and site.

    value, null, error, adjusted   (S, R) by target, see `entropy.Mutual`
    entropy           by target: the most that there is to know
    samples           by target: tokens that counted
    cluster_entropy   (S, R)
    inertia           (S, R) share of the variance that the clusters leave
    between           (S, S) nats between sites less their null, mean over seeds
    kinds             of tokens that counted
    probe             (S,) by target: nats that a linear reader finds at least, see `probe`
    probe_error       (S,) by target: its standard error
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
    kinds: int = 0
    probe: dict[str, Floats] = field(default_factory=dict)
    probe_error: dict[str, Floats] = field(default_factory=dict)

    def interval(self, target: str) -> tuple[Floats, Floats]:
        """Where the nats of the clusters lie, (S,) each: lowest seed less null to highest seed.

        Few samples let the plug-in estimate find too much, at most about the null; two standard
        errors are added on both sides. The vectors themselves may know more than their clusters
        tell, up to all there is to know.
        """
        value, error = self.value[target], self.error[target]
        low = (value - self.null[target] - 2 * error).min(1)
        return low.clip(min=0), (value + 2 * error).max(1)

    def ceiling(self, target: str) -> Floats:
        """The most that the clusters of every site could have told, (S,)."""
        most: Floats = self.cluster_entropy.clip(max=self.entropy[target]).mean(1)
        return most

    def at_ceiling(self, target: str) -> NDArray[np.bool_]:
        """Sites (S,) whose clusters tell nearly all they can, which is not all there is to know."""
        ceiling = self.ceiling(target)
        full = self.value[target].mean(1) >= NEARLY * ceiling
        limited: NDArray[np.bool_] = full & (ceiling < self.entropy[target])
        return limited

    def claim(self, target: str) -> Claim:
        """Whether some site tells more than another, in every clustering."""
        value, null, limited = self.value[target], self.null[target], self.at_ceiling(target)
        best, worst = int(value.mean(1).argmax()), int(value.mean(1).argmin())
        sites = ", ".join(site for site, at in zip(self.sites, limited, strict=True) if at)
        return Claim(
            f"{self.sites[best]} tells more of the {NAMES.get(target, target)} than "
            f"{self.sites[worst]}",
            beyond_chance(value[best], value[worst], null[best], null[worst]),
            LEAST,
            "nats",
            ceiling=f"at {sites} {self.clusters} clusters tell nearly all that so many can, which "
            f"is less than the {self.entropy[target]:.2f} nats there are: take more"
            if sites
            else "",
        )

    def table(self) -> Records:
        """One row per target, site and seed."""
        targets, seeds = list(self.value), range(self._seeds)

        def stacked(values: Mapping[str, Any]) -> Floats:
            found = np.array([values[target] for target in targets])
            return found.reshape(*found.shape, *(1,) * (3 - found.ndim))

        probed = {"probe": stacked(self.probe)} if self.probe else {}
        return records(
            {"target": targets, "site": self.sites, "seed": seeds},
            {
                "nats": stacked(self.value),
                "null": stacked(self.null),
                **probed,
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
        """Nats by site: clusters with their interval, null and ceiling, and the linear probe."""
        if target not in self.value:
            raise UserError(f"{target!r} was not asked for; {suggestion(target, self.value)}")
        low, high = self.interval(target)
        null = self.null[target]
        curves: dict[str, tuple[Floats, ...]] = {
            target: (self.value[target].mean(1), low, high),
            "null: shuffled": (null.mean(1), null.min(1), null.max(1)),
            "ceiling of the clusters": (self.ceiling(target),),
        }
        if target in self.probe:
            bound, error = self.probe[target], self.probe_error[target]
            curves["linear probe: at least"] = band(bound, error)
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

    def finding(self) -> Finding:
        """Where the first target is known best and where least."""
        target = next(iter(self.value))
        word, most = NAMES.get(target, target), self.entropy[target]
        ends = Extremes(self.sites, self.value[target].mean(1), *self.interval(target))
        seen = self.claim(target).verdict == "seen"
        null = f"Shuffled clusters would tell {self.null[target].mean():.2f} nats"
        if target in self.probe:
            best = int(self.probe[target].argmax())
            null += f"; a linear probe finds no fewer than {self.probe[target][best]:.2f} at "
            null += self.sites[best]
        limited = int(self.at_ceiling(target).sum())
        warning = (
            f"At {limited} of {len(self.sites)} sites, {self.clusters} clusters tell nearly all "
            "that so many can: take more clusters to compare them."
        )
        what = f"what clusters tell of the {most:.2f} nats about the {word}"
        return finding(
            ends.sentence(what, "Sites", "at", seen),
            f"{null}.",
            *([warning] if limited else []),
            figure=self._drawn(target),
        )

    def parts(self) -> list[Part]:
        """Every target, with a figure for all but the first; what sites tell about each other."""
        targets = list(self.value)
        matrix = records({"left": self.sites, "right": self.sites}, {"nats": self.between})
        caption = "Less what shuffled clusters tell; the diagonal is the entropy of the clusters."
        return [
            f"Vectors of every site were put into {self.clusters} clusters, {self._seeds} times; "
            f"tokens of {self.kinds or 'the most frequent'} kinds counted. Shown is what the "
            "cluster tells, in nats: the band reaches from the lowest seed less its null to the "
            "highest seed. The vectors know at least that, and at least what a linear probe finds "
            "in texts that it was not fitted on.",
            differences([self.claim(target) for target in targets]),
            *map(self._drawn, targets[1:]),
            Figure("Information between sites", self.between_figure(), caption, matrix),
        ]

    def _drawn(self, target: str) -> Figure:
        return Figure(
            f"Information about the {NAMES.get(target, target)}",
            self.figure(target),
            f"{self.samples[target]} tokens, {self.entropy[target]:.2f} nats to know; shuffled "
            f"clusters tell {self.null[target].mean():.2f}.",
            [row for row in self.table() if row["target"] == target],
        )

    @property
    def _seeds(self) -> int:
        return int(self.inertia.shape[1])
