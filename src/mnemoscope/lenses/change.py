"""How much tokens change from layer to layer, and how much they change others: by group.

Shapes: N tokens, G groups, P steps from one place to the next, or layers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from mnemoscope.activations.capture import Observed
from mnemoscope.core.errors import UserError
from mnemoscope.lenses.similarity.lens import Similarity, SimilarityResult
from mnemoscope.lenses.statistics.groups import Groups
from mnemoscope.plots.figure import Series, lines

if TYPE_CHECKING:
    import plotly.graph_objects as go

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class GroupedResult:
    """PWCCA distances by group, every group with the same number of samples.

    groups, steps   names of both
    distance        (G, P), the mean of both directions
    error           (G, P) standard error
    null            (G, P) what the same samples, paired at random, would give
    samples         for every group
    left_out        groups that had too few tokens, and how many they had
    what            "change" or "influence"
    """

    groups: tuple[str, ...]
    steps: tuple[str, ...]
    distance: Floats
    error: Floats
    null: Floats
    samples: int
    per_dimension: float
    left_out: dict[str, int]
    what: str

    def table(self) -> list[dict[str, str | int | float]]:
        """One row per group and step."""
        return [
            {
                "group": group,
                "step": step,
                self.what: float(self.distance[g, p]),
                "error": float(self.error[g, p]),
                "null": float(self.null[g, p]),
                "samples": self.samples,
                "samples per dimension": self.per_dimension,
            }
            for g, group in enumerate(self.groups)
            for p, step in enumerate(self.steps)
        ]

    def figure(self) -> go.Figure:
        """One line a group, with twice the standard error as band."""
        places = np.arange(len(self.steps))
        figure = lines(
            [
                Series(group, places, value, value - 2 * error, value + 2 * error)
                for group, value, error in zip(self.groups, self.distance, self.error, strict=True)
            ],
            "",
            f"{self.what} (PWCCA distance)",
        )
        figure.update_xaxes(tickvals=list(places), ticktext=list(self.steps))
        return figure


class Quota:
    """Give every group the same number of samples, spread over the whole stream."""

    def __init__(self, groups: Groups, samples: int, seed: int = 0) -> None:
        if samples < 4:
            raise UserError(f"a group needs at least 4 samples, not {samples}")
        self.samples = samples
        self.taken = np.zeros(len(groups.names), dtype=np.int64)
        # Half as many again as needed, since some batches have fewer than their share.
        self.rate = np.minimum(1.5 * samples / np.maximum(groups.counts, 1), 1.0)
        self._rng = np.random.default_rng(seed)

    def take(self, group: int, candidates: Ints) -> Ints:
        """Which of the candidates count, as long as there is room."""
        drawn = candidates[self._rng.random(len(candidates)) < self.rate[group]]
        chosen: Ints = drawn[: self.samples - int(self.taken[group])]
        self.taken[group] += len(chosen)
        return chosen

    def full(self, group: int) -> bool:
        """Whether the group has all that it may have."""
        return bool(self.taken[group] >= self.samples)


def gather(
    results: dict[str, SimilarityResult], names: tuple[str, ...], quota: Quota, what: str
) -> GroupedResult:
    """Put the distances of all groups side by side."""
    if not results:
        most = ", ".join(f"{n}: {c}" for n, c in zip(names, quota.taken, strict=True))
        raise UserError(
            f"no group has {quota.samples} tokens ({most}): read more, or ask for fewer samples"
        )
    first = next(iter(results.values()))
    steps = tuple(
        right if what == "change" else left.removesuffix(" plain") for left, right in first.pairs
    )
    left_out = {
        name: int(taken)
        for name, taken in zip(names, quota.taken, strict=True)
        if name not in results
    }
    return GroupedResult(
        tuple(results),
        steps,
        np.array([one.distance["pwcca"] for one in results.values()]),
        np.array([one.error["pwcca"] for one in results.values()]),
        np.array([one.null["pwcca"] for one in results.values()]),
        quota.samples,
        first.per_dimension,
        left_out,
        what,
    )


class Change:
    """How much tokens change on their way up: ``observe`` what `capture` gives, then ``result``.

    The distance between a place and the next one, over ``samples`` tokens of every group: groups
    compared by PWCCA must be equally large. A group with fewer tokens is left out.
    """

    def __init__(self, groups: Groups, *, samples: int = 2000) -> None:
        self.groups, self._quota = groups, Quota(groups, samples)
        self._lenses = [Similarity("adjacent") for _ in groups.names]

    def observe(self, seen: Observed) -> None:
        """Take in one batch."""
        group = self.groups(seen)
        for number, lens in enumerate(self._lenses):
            chosen = self._quota.take(number, np.flatnonzero(group == number))
            if len(chosen):
                where = torch.from_numpy(chosen)
                sites = {n: v[where.to(v.device)] for n, v in seen.sites.items()}
                lens.observe(replace(seen, sites=sites))

    def result(self) -> GroupedResult:
        """What was seen so far."""
        found = {
            name: lens.result()
            for number, (name, lens) in enumerate(zip(self.groups.names, self._lenses, strict=True))
            if self._quota.full(number)
        }
        return gather(found, self.groups.names, self._quota, "change")
