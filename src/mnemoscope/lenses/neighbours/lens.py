"""What lies near: whether neighbours in a layer's space share token, position or context.

Voita 2019, §6.3. Shapes: n tokens, k neighbours.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.capture import Observed
from mnemoscope.core.arrays import Floats, Ints
from mnemoscope.core.errors import UserError
from mnemoscope.core.statistics import standard_error
from mnemoscope.lenses.inputs import CaptureLens
from mnemoscope.lenses.neighbours.result import TITLES, NeighboursOptions, NeighboursResult
from mnemoscope.lenses.statistics.clusters import standardise
from mnemoscope.lenses.statistics.sample import Sample


class Neighbours(CaptureLens):
    """Look at the ``k`` nearest neighbours: ``observe`` what `capture` gives, then ``result``."""

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
        values: dict[str, list[Floats]] = {what: [] for what in TITLES}
        for vectors in self._sample.sites.values():
            space = standardise(vectors)
            near = _nearest(space, self.k)
            values["token"].append((tokens[near] == tokens[:, None]).mean(1))
            found: dict[str, list[Floats]] = {"position": [], "left": [], "right": []}
            for group in groups:
                close = _nearest(space[torch.from_numpy(group)], self.k)
                for what, one in _alike({n: c[group] for n, c in columns.items()}, close).items():
                    found[what].append(one)
            for what, parts in found.items():
                values[what].append(np.concatenate(parts or [np.full(1, np.nan)]))
        null = {"token": float((twins / (count - 1)).mean())}
        rng = np.random.default_rng(0)
        chance: dict[str, list[Floats]] = {"position": [], "left": [], "right": []}
        for group in groups:
            drawn = rng.integers(len(group), size=(len(group), self.k))
            for what, one in _alike({n: c[group] for n, c in columns.items()}, drawn).items():
                chance[what].append(one)
        null |= {
            what: float(np.concatenate(v or [np.full(1, np.nan)]).mean())
            for what, v in chance.items()
        }
        return NeighboursResult(
            tuple(self._sample.sites),
            self.k,
            {what: np.array([one.mean() for one in rows]) for what, rows in values.items()},
            {
                what: np.array([standard_error(one) for one in rows])
                for what, rows in values.items()
            },
            null,
            float(np.minimum(twins / self.k, 1).mean()),
            count,
        )


def _alike(columns: dict[str, Ints], near: Ints) -> dict[str, Floats]:
    position, left, right = columns["positions"], columns["left"], columns["right"]
    return {
        "position": np.abs(position[near] - position[:, None]).mean(1),
        "left": (left[near] == left[:, None]).mean(1),
        "right": (right[near] == right[:, None]).mean(1),
    }


def _nearest(vectors: Tensor, k: int) -> Ints:
    """The k nearest others of every vector, (n, k), by Euclidean distance."""
    squares = vectors.square().sum(1)
    found = []
    for at in range(0, len(vectors), 1024):
        part = vectors[at : at + 1024]
        apart = torch.addmm(squares, part, vectors.T, alpha=-2)
        apart[torch.arange(len(part)), at + torch.arange(len(part))] = torch.inf
        found.append(apart.topk(k, largest=False).indices)
    return torch.cat(found).numpy()
