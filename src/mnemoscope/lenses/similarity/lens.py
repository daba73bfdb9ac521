"""How far apart places are: PWCCA, CCA, SVCCA, CKA and Procrustes, from one pass over a text."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from mnemoscope.activations.capture import Observed
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.lenses.similarity.cca import MEASURES, distances, null_distances
from mnemoscope.lenses.statistics.moments import Moments, Pair, White, whiten
from mnemoscope.plots.figure import Reference, Series, bars, heatmap

if TYPE_CHECKING:
    import plotly.graph_objects as go

log = logging.getLogger(__name__)

Floats = NDArray[np.float64]
# Below this many samples a dimension, distances are mostly bias: about 0.85 √(d/n) for PWCCA.
ENOUGH = 10


@dataclass(frozen=True, eq=False)
class SimilarityResult:
    """Distances of P pairs of places.

    sites, pairs   names of the places, and which were compared
    distance       (P,) by measure; "pwcca" is the mean of "pwcca_left" and "pwcca_right", which
                   take their weights from one side
    error          (P,) by measure: standard error by leaving out each quarter of the batches
    null           (P,) by measure: what the same samples, paired at random, would give
    samples        how many tokens
    widths, ranks  by place: dimensions, and those that vary
    """

    sites: tuple[str, ...]
    pairs: tuple[Pair, ...]
    distance: dict[str, Floats]
    error: dict[str, Floats]
    null: dict[str, Floats]
    samples: int
    widths: dict[str, int]
    ranks: dict[str, int]

    @property
    def per_dimension(self) -> float:
        """Samples for each dimension of the widest place."""
        return self.samples / max(self.widths.values())

    def table(self) -> list[dict[str, str | int | float]]:
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
        """Distances of all places with all, (S, S), NaN where nothing was compared."""
        place = {name: number for number, name in enumerate(self.sites)}
        found = np.full((len(place), len(place)), np.nan)
        np.fill_diagonal(found, 0)
        for value, (left, right) in zip(self.distance[measure], self.pairs, strict=True):
            found[place[left], place[right]] = found[place[right], place[left]] = value
        return found

    def figure(self, measure: str = "pwcca") -> go.Figure:
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
            "places",
            f"distance ({measure})",
            references=[Reference(float(np.mean(self.null[measure])), "null: paired at random")],
        )


class Similarity:
    """Compare places: ``observe`` what `capture` gives, then ``result``.

    ``pairs`` are all pairs of places, those next to each other, or some that are named. Of several
    models, `mnemoscope.activations.capture.side_by_side` gives places that can be compared. With
    ``folds=1`` no error is computed, which saves four fifths of the time of ``result``.
    """

    def __init__(
        self, pairs: Literal["all", "adjacent"] | Sequence[Pair] = "all", *, folds: int = 4
    ) -> None:
        if folds < 1:
            raise UserError(f"folds must be at least 1, not {folds}")
        self.pairs = pairs
        self.folds: list[Moments] = []
        self._folds, self._batches = folds, 0

    def observe(self, seen: Observed) -> None:
        """Take in one batch."""
        if not self.folds:
            self.folds = [Moments(self._chosen(list(seen.sites))) for _ in range(self._folds)]
        self.folds[self._batches % self._folds].add(seen.sites)
        self._batches += 1

    def _chosen(self, sites: list[str]) -> Sequence[Pair]:
        if not isinstance(self.pairs, str):
            for name in (name for pair in self.pairs for name in pair):
                if name not in sites:
                    raise UserError(f"nothing was captured at {name!r}; {suggestion(name, sites)}")
            return self.pairs
        if self.pairs not in ("all", "adjacent"):
            raise UserError(f"pairs must be all, adjacent or named, not {self.pairs!r}")
        if len(sites) < 2:
            raise UserError(f"a distance needs two places, only {sites} was captured")
        return list(combinations(sites, 2) if self.pairs == "all" else pairwise(sites))

    def result(self) -> SimilarityResult:
        """What was seen so far."""
        if not self.folds:
            raise UserError("nothing was observed yet: call observe(seen) for every batch first")
        whole = _join(self.folds)
        whole.check()
        pairs = tuple(pair for pair in whole.pairs if pair[0] != pair[1])
        white = {name: whiten(whole.inner(name)) for name in whole.names}
        found = _all(whole, pairs, white)
        null = [
            null_distances(whole.count, white[left], white[right], seed)
            for seed, (left, right) in enumerate(pairs)
        ]
        error = {measure: np.full(len(pairs), np.nan) for measure in found}
        filled = [fold for fold in self.folds if fold.count]
        smallest = whole.count - max(fold.count for fold in filled)
        widths = {name: len(whole.means[name]) for name in whole.names}
        if len(filled) > 1 and smallest > max(widths.values()):
            parts = []
            for left_out in filled:
                rest = _join([fold for fold in filled if fold is not left_out])
                parts.append(_all(rest, pairs, {n: whiten(rest.inner(n)) for n in rest.names}))
            for measure in found:
                values = np.stack([part[measure] for part in parts])
                spread = ((values - values.mean(0)) ** 2).sum(0)
                error[measure] = np.sqrt(spread * (len(filled) - 1) / len(filled))
        result = SimilarityResult(
            tuple(whole.names),
            pairs,
            found,
            error,
            {measure: np.array([one[measure] for one in null]) for measure in found},
            whole.count,
            widths,
            {name: one.rank for name, one in white.items()},
        )
        if result.per_dimension < ENOUGH:
            log.warning(
                "%d samples for %d dimensions: below %d a dimension, distances of the CCA kind "
                "are mostly bias; compare with the null",
                whole.count,
                max(widths.values()),
                ENOUGH,
            )
        return result


def _join(folds: Sequence[Moments]) -> Moments:
    whole = Moments(folds[0].pairs)
    for fold in folds:
        whole.merge(fold)
    return whole


def _all(moments: Moments, pairs: Sequence[Pair], white: dict[str, White]) -> dict[str, Floats]:
    rows: list[dict[str, Any]] = [
        distances(moments, (left, right), white[left], white[right]) for left, right in pairs
    ]
    names = [*MEASURES, "pwcca_left", "pwcca_right"]
    return {measure: np.array([row[measure] for row in rows]) for measure in names}
