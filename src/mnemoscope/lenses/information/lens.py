"""How much places know of what was read: mutual information by clustering (Voita 2019, §4).

Shapes: S places, R seeds of the clustering.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mnemoscope.activations.capture import NOBODY, Observed
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.data.batch import NO_QUESTION
from mnemoscope.lenses.information.entropy import Mutual, entropy, mutual
from mnemoscope.lenses.statistics.clusters import cluster
from mnemoscope.lenses.statistics.sample import Sample
from mnemoscope.plots.figure import Reference, Series, heatmap, lines

if TYPE_CHECKING:
    import plotly.graph_objects as go

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# What can be asked about, the column it is read from, and the value that means there is none.
TARGETS = {
    "token": ("tokens", None),
    "next": ("right", NOBODY),
    "previous": ("left", NOBODY),
    "position": ("positions", None),
    "label": ("labels", NO_QUESTION),
}


@dataclass(frozen=True, eq=False)
class InformationResult:
    """Nats that the cluster of a vector tells, by target and place.

    value, null, error, adjusted   (S, R) by target, see `entropy.Mutual`
    entropy           by target: the most that there is to know
    samples           by target: tokens that counted
    cluster_entropy   (S, R)
    inertia           (S, R) share of the variance that the clusters leave
    between           (S, S) nats between places less their null, mean over seeds
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

    def table(self) -> list[dict[str, str | int | float]]:
        """One row per target, place and seed."""
        return [
            {
                "target": target,
                "site": site,
                "seed": seed,
                "nats": float(values[s, seed]),
                "null": float(self.null[target][s, seed]),
                "error": float(self.error[target][s, seed]),
                "adjusted": float(self.adjusted[target][s, seed]),
                "entropy": self.entropy[target],
                "cluster entropy": float(self.cluster_entropy[s, seed]),
                "inertia": float(self.inertia[s, seed]),
                "clusters": self.clusters,
                "samples": self.samples[target],
            }
            for target, values in self.value.items()
            for s, site in enumerate(self.sites)
            for seed in range(values.shape[1])
        ]

    def figure(self, target: str = "token") -> go.Figure:
        """Nats by place: the mean of the seeds with the interval, and the null below."""
        if target not in self.value:
            raise UserError(f"{target!r} was not asked for; {suggestion(target, self.value)}")
        places = np.arange(len(self.sites))
        low, high = self.interval(target)
        null = self.null[target]
        figure = lines(
            [
                Series(target, places, self.value[target].mean(1), low, high),
                Series("null: shuffled", places, null.mean(1), null.min(1), null.max(1)),
            ],
            "place",
            f"nats about the {target}",
            references=[Reference(self.entropy[target], "all there is to know")],
            y_range=(0, self.entropy[target] * 1.06),
        )
        figure.update_xaxes(tickvals=list(places), ticktext=list(self.sites))
        return figure

    def between_figure(self) -> go.Figure:
        """Nats that places tell about each other."""
        sites = list(self.sites)
        return heatmap(self.between, sites, sites, "", "", "nats less null")


class Information:
    """Ask what places know: ``observe`` what `capture` gives, then ``result``.

    Only tokens of the ``types`` most frequent kinds count, as in the paper. Of the stream at most
    ``samples`` tokens are kept. ``clusters`` is by default one for every 50 of them, at most 1000;
    only values with equal clusters and samples can be compared.
    """

    def __init__(
        self,
        targets: Sequence[str] = ("token",),
        *,
        clusters: int | None = None,
        types: int = 1000,
        samples: int = 50_000,
        seeds: int = 3,
    ) -> None:
        for target in targets:
            if target not in TARGETS:
                raise UserError(f"unknown target {target!r}; {suggestion(target, TARGETS)}")
        if seeds < 1 or types < 2 or (clusters is not None and clusters < 2):
            raise UserError(f"too few: {seeds=} (at least 1), {types=}, {clusters=} (at least 2)")
        self.targets, self.clusters, self.types, self.seeds = targets, clusters, types, seeds
        self._sample = Sample(samples)

    def observe(self, seen: Observed) -> None:
        """Take in one batch."""
        self._sample.add(seen)

    def result(self) -> InformationResult:
        """What was seen so far."""
        sample = self._sample
        if not len(sample):
            raise UserError("nothing was observed yet: call observe(seen) for every batch first")
        kinds, counts = np.unique(sample.columns["tokens"], return_counts=True)
        frequent = kinds[np.argsort(-counts, kind="stable")[: self.types]]
        kept = np.isin(sample.columns["tokens"], frequent)
        columns = {name: column[kept] for name, column in sample.columns.items()}
        count = int(kept.sum())
        clusters = self.clusters or max(2, min(1000, count // 50))
        if count < 10 * clusters:
            raise UserError(
                f"{count} tokens are too few for {clusters} clusters: read at least "
                f"{10 * clusters}, or take fewer clusters"
            )
        sites = sample.sites
        found = {
            name: [cluster(values[kept], clusters, seed) for seed in range(self.seeds)]
            for name, values in sites.items()
        }
        ids = {name: [one.ids for one in seeds] for name, seeds in found.items()}
        told: dict[str, list[list[Mutual]]] = {}
        most, used = {}, {}
        for target in self.targets:
            column, nothing = TARGETS[target]
            labels = columns[column]
            asked = np.ones(count, dtype=bool) if nothing is None else labels != nothing
            if asked.sum() < 2:
                raise UserError(f"no token that was read has a {target}")
            most[target], used[target] = entropy(labels[asked]), int(asked.sum())
            told[target] = [
                [mutual(labels[asked], one[asked], seed) for seed, one in enumerate(ids[name])]
                for name in sites
            ]

        def gather(what: str) -> dict[str, Floats]:
            return {
                target: np.array([[getattr(one, what) for one in seeds] for seeds in rows])
                for target, rows in told.items()
            }

        return InformationResult(
            tuple(sites),
            clusters,
            gather("value"),
            gather("null"),
            gather("error"),
            gather("adjusted"),
            most,
            used,
            np.array([[entropy(one) for one in ids[name]] for name in sites]),
            np.array([[one.inertia for one in found[name]] for name in sites]),
            _between(ids),
        )


def _between(ids: dict[str, list[Ints]]) -> Floats:
    names = list(ids)
    found = np.zeros((len(names), len(names)))
    for i, left in enumerate(names):
        for j, right in enumerate(names[: i + 1]):
            pairs = zip(ids[left], ids[right], strict=True)
            told = [mutual(a, b, seed) for seed, (a, b) in enumerate(pairs)]
            found[i, j] = found[j, i] = np.mean([one.value - one.null for one in told])
    return found
