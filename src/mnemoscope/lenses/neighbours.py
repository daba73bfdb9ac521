"""What lies near: whether neighbours in a layer's space share token, position or context.

Voita 2019, §6.3. Shapes: S places, k neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemoscope.activations.capture import Observed
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.lenses.statistics.clusters import standardise
from mnemoscope.lenses.statistics.sample import Sample
from mnemoscope.plots.figure import Reference, Series, lines

if TYPE_CHECKING:
    import plotly.graph_objects as go

Floats = NDArray[np.float64]
TITLES = {
    "token": "share of neighbours that are the same token",
    "position": "mean distance in position of neighbours",
    "left": "share of neighbours with the same token to the left",
    "right": "share of neighbours with the same token to the right",
}


@dataclass(frozen=True, eq=False)
class NeighboursResult:
    """By what is asked (token, position, left, right): value, error and null at S places.

    Token is asked among all tokens; the others among occurrences of one token, for tokens with
    more than k of them. ``ceiling`` is the best share of same tokens that was possible, as rare
    tokens have fewer than k twins. The null takes neighbours at random from the same candidates.
    """

    sites: tuple[str, ...]
    k: int
    value: dict[str, Floats]
    error: dict[str, Floats]
    null: dict[str, float]
    ceiling: float
    samples: int

    def table(self) -> list[dict[str, str | int | float]]:
        """One row per question and place."""
        return [
            {
                "asked": what,
                "site": site,
                "value": float(values[s]),
                "error": float(self.error[what][s]),
                "null": self.null[what],
                "ceiling": self.ceiling if what == "token" else "",
                "k": self.k,
                "samples": self.samples,
            }
            for what, values in self.value.items()
            for s, site in enumerate(self.sites)
        ]

    def figure(self, what: str = "token") -> go.Figure:
        """One question, by place."""
        if what not in self.value:
            raise UserError(f"{what!r} was not asked; {suggestion(what, self.value)}")
        places, value, error = np.arange(len(self.sites)), self.value[what], self.error[what]
        references = [Reference(self.null[what], "null: neighbours at random")]
        if what == "token":
            references.append(Reference(self.ceiling, "best possible"))
        figure = lines(
            [Series(what, places, value, value - 2 * error, value + 2 * error)],
            "place",
            TITLES[what],
            references=references,
        )
        figure.update_xaxes(tickvals=list(places), ticktext=list(self.sites))
        return figure


class Neighbours:
    """Look at the ``k`` nearest neighbours: ``observe`` what `capture` gives, then ``result``."""

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
                what: np.array([one.std() / len(one) ** 0.5 for one in rows])
                for what, rows in values.items()
            },
            null,
            float(np.minimum(twins / self.k, 1).mean()),
            count,
        )


def _alike(columns: dict[str, NDArray[np.int64]], near: NDArray[np.int64]) -> dict[str, Floats]:
    position, left, right = columns["positions"], columns["left"], columns["right"]
    return {
        "position": np.abs(position[near] - position[:, None]).mean(1),
        "left": (left[near] == left[:, None]).mean(1),
        "right": (right[near] == right[:, None]).mean(1),
    }


def _nearest(vectors: Tensor, k: int) -> NDArray[np.int64]:
    """The k nearest others of every vector, (n, k), by Euclidean distance."""
    squares = vectors.square().sum(1)
    found = []
    for at in range(0, len(vectors), 1024):
        part = vectors[at : at + 1024]
        apart = torch.addmm(squares, part, vectors.T, alpha=-2)
        apart[torch.arange(len(part)), at + torch.arange(len(part))] = torch.inf
        found.append(apart.topk(k, largest=False).indices)
    return torch.cat(found).numpy()
