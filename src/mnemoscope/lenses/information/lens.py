"""How much sites know of what was read: mutual information by clustering (Voita 2019, §4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mnemoscope.activations.capture import NOBODY, Observed
from mnemoscope.core.arrays import Floats, Ints
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.data.batch import NO_QUESTION
from mnemoscope.lenses.information.entropy import Mutual, entropy, mutual
from mnemoscope.lenses.information.probe import probe
from mnemoscope.lenses.information.result import InformationOptions, InformationResult
from mnemoscope.lenses.inputs import CaptureLens
from mnemoscope.lenses.statistics.clusters import cluster
from mnemoscope.lenses.statistics.sample import Sample

# What can be asked about, the column it is read from, and the value that means there is none.
TARGETS = {
    "token": ("tokens", None),
    "next": ("right", NOBODY),
    "previous": ("left", NOBODY),
    "position": ("positions", None),
    "label": ("labels", NO_QUESTION),
}
# Tokens that a cluster, and a kind of token, has at least in the mean where nobody says otherwise.
PER_CLUSTER, PER_KIND = 50, 20


class Information(CaptureLens):
    """Ask what sites know: ``observe`` what `capture` gives, then ``result``.

    Only tokens of the ``types`` most frequent kinds count, as in the paper. Of the stream at most
    ``samples`` tokens are kept. ``clusters`` is by default one for every 50 of them, at most 1000,
    but never below the number of kinds: fewer could not tell them apart, whatever a layer knows.
    Where tokens are few, so many kinds count as have 20 tokens each in the mean. Only values with
    equal clusters, kinds and samples can be compared.
    """

    title = "Information"
    question = "How much does every layer of {models} know of what it has read?"
    Options, Result = InformationOptions, InformationResult

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
        most_kinds = min(self.types, max(2, len(sample) // PER_KIND))
        if self.clusters is not None:
            most_kinds = self.types
        frequent = kinds[np.argsort(-counts, kind="stable")[:most_kinds]]
        kept = np.isin(sample.columns["tokens"], frequent)
        columns = {name: column[kept] for name, column in sample.columns.items()}
        count = int(kept.sum())
        clusters = self.clusters or max(2, len(frequent), min(1000, count // PER_CLUSTER))
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
        most, used, probed = {}, {}, {}
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
            chosen, where = kept.nonzero()[0][asked], columns["rows"][asked]
            bounds = [probe(values[chosen], labels[asked], where) for values in sites.values()]
            probed[target] = np.array(bounds)

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
            len(frequent),
            {target: bounds[:, 0] for target, bounds in probed.items()},
            {target: bounds[:, 1] for target, bounds in probed.items()},
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
