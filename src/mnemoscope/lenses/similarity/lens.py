"""How far apart sites are: PWCCA, CCA, SVCCA, CKA and Procrustes, from one pass over a text."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Literal

import numpy as np

from mnemoscope.activations.capture import Observed
from mnemoscope.core.arrays import Floats
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.lenses.inputs import CaptureLens
from mnemoscope.lenses.similarity.cca import MEASURES, distances, null_distances
from mnemoscope.lenses.similarity.result import ENOUGH, SimilarityOptions, SimilarityResult
from mnemoscope.lenses.statistics.moments import Moments, Pair, White, whiten

log = logging.getLogger(__name__)


class Similarity(CaptureLens):
    """Compare sites: ``observe`` what `capture` gives, then ``result``.

    ``pairs`` are all pairs of sites, those next to each other, or some that are named. Of several
    models, `mnemoscope.activations.capture.side_by_side` gives sites that can be compared. With
    ``folds=1`` no error is computed, which saves four fifths of the time of ``result``.
    """

    title = "Similarity"
    question = "How far apart are the layers of {models}?"
    Options, Result = SimilarityOptions, SimilarityResult
    models = (1, 2)

    @classmethod
    def asked(cls, names: Sequence[str]) -> str:
        """Two models are told apart by letters, as their sites are."""
        if len(names) == 1:
            return super().asked(names)
        return super().asked([f"{a} = {name}" for a, name in zip("AB", names, strict=True)])

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
            raise UserError(f"pairs must be all, adjacent or a list of pairs, not {self.pairs!r}")
        if len(sites) < 2:
            raise UserError(f"a distance needs two sites, only {sites} was captured")
        return list(combinations(sites, 2) if self.pairs == "all" else pairwise(sites))

    def result(self) -> SimilarityResult:
        """What was seen so far."""
        if not self.folds:
            raise UserError("nothing was observed yet: call observe(seen) for every batch first")
        whole = _join(self.folds)
        whole.check()
        pairs = tuple(pair for pair in whole.pairs if pair[0] != pair[1])
        found, white = _all(whole, pairs)
        null = [
            null_distances(whole.count, white[left], white[right], seed)
            for seed, (left, right) in enumerate(pairs)
        ]
        error = {measure: np.full(len(pairs), np.nan) for measure in found}
        filled = [fold for fold in self.folds if fold.count]
        smallest = whole.count - max(fold.count for fold in filled)
        widths = {name: len(whole.means[name]) for name in whole.names}
        if len(filled) > 1 and smallest > max(widths.values()):
            rests = (_join([one for one in filled if one is not left_out]) for left_out in filled)
            parts = [_all(rest, pairs)[0] for rest in rests]
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


def _all(moments: Moments, pairs: Sequence[Pair]) -> tuple[dict[str, Floats], dict[str, White]]:
    """Every measure of every pair, (P,), and the sites made white."""
    white = {name: whiten(moments.inner(name)) for name in moments.names}
    rows = [distances(moments, pair, *(white[name] for name in pair)) for pair in pairs]
    names = [*MEASURES, "pwcca_left", "pwcca_right"]
    return {measure: np.array([row[measure] for row in rows]) for measure in names}, white
