"""What lies near: whether neighbours in a layer's space share token, position or context.

Voita 2019, §6.3. Shapes: n tokens, k neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.capture import Observed
from mnemoscope.core.arrays import Floats, Ints
from mnemoscope.core.errors import UserError
from mnemoscope.core.statistics import standard_error
from mnemoscope.data.batch import NO_QUESTION
from mnemoscope.lenses.inputs import CaptureLens
from mnemoscope.lenses.neighbours.result import TITLES, NeighboursOptions, NeighboursResult
from mnemoscope.lenses.statistics.clusters import standardise
from mnemoscope.lenses.statistics.sample import Sample


class Neighbours(CaptureLens):
    """Look at the ``k`` nearest neighbours: ``observe`` what `capture` gives, then ``result``.

    Where labels were captured, such as parts of speech, it also asks which of the nearest tokens of
    other kinds have the same one: whether those of the same kind do is no question.
    """

    title = "Neighbours"
    question = "What do neighbours in the space of every layer of {models} share?"
    Options, Result = NeighboursOptions, NeighboursResult

    def __init__(self, k: int = 10, *, samples: int = 5000) -> None:
        if not 1 <= k < samples:
            raise UserError(f"k must be at least 1 and below {samples} samples, not {k}")
        self.k, self._sample = k, Sample(samples)

    def observe(self, seen: Observed) -> None:
        """Take in one batch."""
        self._sample.add(seen)

    def result(self) -> NeighboursResult:
        """What was seen so far."""
        count = len(self._sample)
        if count <= self.k:
            raise UserError(f"{count} tokens were read, {self.k} neighbours need more")
        columns = self._sample.columns
        tokens = columns["tokens"]
        kinds, sizes = np.unique(tokens, return_counts=True)
        twins = sizes[np.searchsorted(kinds, tokens)] - 1
        groups = [np.flatnonzero(tokens == kind) for kind in kinds[sizes > self.k]]
        labelled = np.flatnonzero(columns["labels"] != NO_QUESTION)
        labels = columns["labels"][labelled]
        rows = []
        for vectors in self._sample.sites.values():
            space = standardise(vectors)
            near = _nearest(space, self.k)
            close = [_nearest(space[torch.from_numpy(group)], self.k) for group in groups]
            same = {"token": (tokens[near] == tokens[:, None]).mean(1)}
            if len(labelled):
                some = space[torch.from_numpy(labelled)]
                others = _nearest(some, self.k, torch.from_numpy(tokens[labelled]))
                same["label"] = (labels[others] == labels[:, None]).mean(1)
            rows.append(same | _alike(columns, groups, close))
        rng = np.random.default_rng(0)
        drawn = [_others(rng, len(group), self.k) for group in groups]
        null = {"token": twins / (count - 1)} | _alike(columns, groups, drawn)
        if len(labelled):
            null["label"] = _at_random(tokens[labelled], labels)
        asked = [what for what in TITLES if what in null]
        return NeighboursResult(
            tuple(self._sample.sites),
            self.k,
            {what: np.array([row[what].mean() for row in rows]) for what in asked},
            {what: np.array([standard_error(row[what]) for row in rows]) for what in asked},
            {what: float(values.mean()) for what, values in null.items()},
            float(np.minimum(twins / self.k, 1).mean()),
            count,
        )


def _alike(
    columns: dict[str, Ints], groups: Sequence[Ints], near: Sequence[Ints]
) -> dict[str, Floats]:
    """What tokens share with those ``near`` them in their group, for all groups in a row, (n,)."""
    found: dict[str, list[Floats]] = {"position": [], "left": [], "right": []}
    for group, others in zip(groups, near, strict=True):
        position, left, right = (columns[name][group] for name in ("positions", "left", "right"))
        found["position"].append(np.abs(position[others] - position[:, None]).mean(1))
        found["left"].append((left[others] == left[:, None]).mean(1))
        found["right"].append((right[others] == right[:, None]).mean(1))
    return {what: np.concatenate(parts or [np.full(1, np.nan)]) for what, parts in found.items()}


def _others(rng: np.random.Generator, count: int, k: int) -> Ints:
    """k others at random for every one of ``count``, (count, k): nobody is its own neighbour."""
    drawn = rng.integers(count - 1, size=(count, k))
    return drawn + (drawn >= np.arange(count)[:, None])


def _at_random(tokens: Ints, labels: Ints) -> Floats:
    """Share of all tokens of other kinds that have the same label, for every token (n,)."""
    _, kind, kinds = np.unique(tokens, return_inverse=True, return_counts=True)
    _, label, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    _, both, together = np.unique(
        kind * len(sizes) + label, return_inverse=True, return_counts=True
    )
    others = np.maximum(len(tokens) - kinds[kind], 1)
    share: Floats = (sizes[label] - together[both]) / others
    return share


def _nearest(vectors: Tensor, k: int, kinds: Tensor | None = None) -> Ints:
    """The k nearest others of every vector, (n, k), by Euclidean distance; of other ``kinds``."""
    squares = vectors.square().sum(1)
    found = []
    for at in range(0, len(vectors), 1024):
        part = vectors[at : at + 1024]
        apart = torch.addmm(squares, part, vectors.T, alpha=-2)
        apart[torch.arange(len(part)), at + torch.arange(len(part))] = torch.inf
        if kinds is not None:
            apart[kinds[at : at + 1024, None] == kinds] = torch.inf
        found.append(apart.topk(k, largest=False).indices)
    return torch.cat(found).numpy()
