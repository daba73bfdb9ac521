"""Occurrences of a few tokens, drawn layer by layer: principal components with a slider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
import torch

from mnemoscope.activations.capture import COLUMNS, Observed
from mnemoscope.core.arrays import Floats, Ints
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.lenses.inputs import CaptureLens, Tokenised
from mnemoscope.lenses.occurrences.result import OccurrencesOptions, OccurrencesResult
from mnemoscope.lenses.statistics.clusters import standardise
from mnemoscope.lenses.statistics.sample import Sample
from mnemoscope.open import Reader

# Kinds of tokens that are drawn when nobody says which.
FEW = 4


class Occurrences(CaptureLens):
    """Collect chosen tokens: ``observe`` what `capture` gives, then ``result``.

    ``tokens`` are ids and the words to show for them. At most ``samples`` occurrences are kept.
    """

    title = "Occurrences"
    question = "Where do the layers of {models} put occurrences of the same token?"
    Options, Result = OccurrencesOptions, OccurrencesResult

    @classmethod
    def made(cls, given: Tokenised, texts: Sequence[str], options: OccurrencesOptions) -> Self:
        """A fresh lens."""
        chosen = _chosen(given.readers[0], given.ids, options.words)
        return cls(chosen, samples=options.samples)

    def __init__(self, tokens: Mapping[int, str], *, samples: int = 1000) -> None:
        if not tokens:
            raise UserError("say which tokens to look at")
        self.tokens, self._sample = tokens, Sample(samples)

    def observe(self, seen: Observed) -> None:
        """Take in one batch."""
        kept = np.isin(seen.tokens, list(self.tokens))
        where = torch.from_numpy(np.flatnonzero(kept))
        columns = {name: getattr(seen, name)[kept] for name in COLUMNS}
        sites = {name: values[where.to(values.device)] for name, values in seen.sites.items()}
        self._sample.add(Observed(**columns, sites=sites))

    def result(self) -> OccurrencesResult:
        """What was seen so far."""
        if len(self._sample) < 3:
            words = ", ".join(repr(word) for word in self.tokens.values())
            raise UserError(f"{words} occurred {len(self._sample)} times: read more text")
        coordinates: list[Floats] = []
        explained: list[float] = []
        for values in self._sample.sites.values():
            left, scale, _ = torch.linalg.svd(standardise(values).double(), full_matrices=False)
            drawn = torch.zeros(len(left), 2, dtype=torch.float64)
            drawn[:, : min(2, len(scale))] = left[:, :2] * scale[:2]
            drawn /= drawn.square().mean().sqrt()
            if coordinates:
                # The rotation or reflection that brings it nearest to the site before.
                u, _, v = torch.linalg.svd(drawn.T @ torch.from_numpy(coordinates[-1]))
                drawn = drawn @ u @ v
            coordinates.append(drawn.numpy())
            explained.append(float(scale[:2].square().sum() / scale.square().sum()))
        return OccurrencesResult(
            tuple(self._sample.sites),
            tuple(self.tokens[int(token)] for token in self._sample.columns["tokens"]),
            self._sample.columns["positions"],
            np.stack(coordinates),
            np.array(explained),
            min(1.0, 2 / min(values.shape[1] for values in self._sample.sites.values())),
        )


def _chosen(reader: Reader, texts: Sequence[Ints], words: Sequence[str] | None) -> dict[int, str]:
    """The ids to draw, most frequent first, by what the model spells them."""
    kinds, counts = np.unique(np.concatenate(texts), return_counts=True)
    kinds = kinds[np.argsort(-counts, kind="stable")]
    spelled = {int(one): reader.decode(int(one)) for one in kinds if one not in reader.special}
    if words is None:
        return dict(list(spelled.items())[:FEW])
    for word in words:
        if word not in spelled.values():
            hint = suggestion(word, list(spelled.values()))
            raise UserError(f"the text has no token {word!r}; {hint}")
    return {one: word for one, word in spelled.items() if word in words}
