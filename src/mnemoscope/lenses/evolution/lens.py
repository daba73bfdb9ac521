"""What becomes of tokens on their way through models: what is kept of them, and how they change.

The questions of Voita 2019 (§4 to §6) to any models. Each is asked by itself; those that cut text
into the same tokens are compared with each other as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from mnemoscope.activations.capture import Observed
from mnemoscope.activations.sites import choose
from mnemoscope.core.errors import UserError
from mnemoscope.lenses.change.grouping import LARGEST
from mnemoscope.lenses.change.lens import Change
from mnemoscope.lenses.evolution.result import EvolutionOptions, EvolutionResult, Looked, Pair
from mnemoscope.lenses.information.lens import Information
from mnemoscope.lenses.inputs import tokenise
from mnemoscope.lenses.lens import Lens
from mnemoscope.lenses.similarity.lens import Similarity
from mnemoscope.lenses.statistics.groups import Groups, by_frequency, counted
from mnemoscope.open import Reader, open_reader

TARGETS = ("token", "next")


class Evolution(Lens):
    """Look at one model: ``observe`` what `capture` gives, then ``result``.

    ``groups`` are those that change is measured of. `measure` does so with every model, and
    compares those that can be.
    """

    title = "Evolution"
    question = "What becomes of tokens on their way through the layers of {models}?"
    Options, Result = EvolutionOptions, EvolutionResult
    models = (1, None)

    def __init__(
        self,
        groups: Groups,
        *,
        name: str = "model",
        samples: int = 2000,
        clusters: int | None = None,
        types: int = 1000,
        seeds: int = 3,
    ) -> None:
        self.name = name
        self._known = Information(TARGETS, clusters=clusters, types=types, seeds=seeds)
        self._changed = Change(groups, samples=samples)

    def observe(self, seen: Observed) -> None:
        """Take in one batch."""
        self._known.observe(seen)
        self._changed.observe(seen)

    def looked(self) -> Looked:
        """What was seen of this model so far."""
        return Looked(self._known.result(), self._changed.result())

    def result(self) -> EvolutionResult:
        """The same as a result of one model."""
        return EvolutionResult({self.name: self.looked()}, (), ())

    @classmethod
    def measure(
        cls, models: Sequence[Any], texts: Sequence[str], options: EvolutionOptions
    ) -> EvolutionResult:
        """Let every model read, then those side by side that read the same tokens."""
        readers = [open_reader(model) for model in models]
        names = _distinct([reader.name for reader in readers])
        # What the last model does not have shows before the first one reads for minutes.
        for name, reader in zip(names, readers, strict=True):
            try:
                choose(reader.model, list(options.sites))
            except UserError as error:
                raise UserError(f"{name}: {error}") from error
        looked = {}
        for name, reader in zip(names, readers, strict=True):
            given = tokenise([reader], texts, options, options.sites)
            groups = by_frequency(counted(reader, given.ids, length=given.length))
            sizes = sorted(groups.counts.tolist(), reverse=True)
            samples = options.samples or max(4, sizes[min(LARGEST, len(sizes)) - 1])
            lens = cls(
                groups,
                name=name,
                samples=samples,
                clusters=options.clusters,
                types=options.types,
                seeds=options.seeds,
            )
            for seen in given.captured(options.sites):
                lens.observe(seen)
            looked[name] = lens.looked()
        pairs, apart = [], []
        for (left, one), (right, other) in combinations(zip(names, readers, strict=True), 2):
            try:
                pairs.append(_compared((left, one), (right, other), texts, options))
            except DifferentTokensError as error:
                apart.append(str(error))
        return EvolutionResult(looked, tuple(pairs), tuple(apart))


class DifferentTokensError(UserError):
    """Two models cannot be held against each other token by token."""


def _compared(
    left: tuple[str, Reader],
    right: tuple[str, Reader],
    texts: Sequence[str],
    options: EvolutionOptions,
) -> Pair:
    """PWCCA of layers at the same depth of two models, over the same tokens."""
    readers = [left[1], right[1]]
    names = f"{left[0]} and {right[0]}"
    if readers[0].tokens != readers[1].tokens:
        raise DifferentTokensError(
            f"Vectors of {names} cannot be compared: these models cut text into different tokens. "
            "What each keeps of its own can be told."
        )
    try:
        given = tokenise(readers, texts, options, options.sites)
    except UserError as error:
        raise DifferentTokensError(
            f"{names} cannot be held against each other: {error}."
        ) from error
    lens: Similarity | None = None
    for seen in given.captured(options.sites):
        if lens is None:
            lens = Similarity(same_depth(list(seen.sites)))
        lens.observe(seen)
    assert lens is not None
    return Pair(left[0], right[0], lens.result())


def same_depth(sites: Sequence[str]) -> list[tuple[str, str]]:
    """Every site A/… of the model with fewer of them, and that of the other at the same depth."""
    own, other = ([site for site in sites if site.startswith(f"{one}/")] for one in "AB")
    few, many = sorted((own, other), key=len)
    last = max(1, len(few) - 1)
    found = [(one, many[round(at * (len(many) - 1) / last)]) for at, one in enumerate(few)]
    return [(a, b) if a.startswith("A/") else (b, a) for a, b in found]


def _distinct(names: Sequence[str]) -> list[str]:
    """Names of models, with numbers where two have the same."""
    found = []
    for at, name in enumerate(names):
        again = names[: at + 1].count(name)
        found.append(f"{name} ({again})" if names.count(name) > 1 else name)
    return found
