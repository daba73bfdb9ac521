"""TF-IDF of documents, projected to a few numbers, and the document frequencies behind it.

Shapes: N documents, K size of a representation, U runs of words that were met.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from mnemoscope.core.seeds import derive
from mnemoscope.memories.documents.entries import unit

Run = tuple[int, ...]

# Tokens of a shingle: runs this long are hardly shared by two texts that are not alike.
SHINGLE = 3


@dataclass(frozen=True)
class Frequencies:
    """In how many of ``documents`` texts each run of ``run`` words occurs."""

    run: int = 1
    documents: int = 0
    spread: Counter[Run] = field(default_factory=Counter)

    def plus(self, texts: Sequence[Sequence[int]]) -> Frequencies:
        """The same with more texts counted."""
        more = Counter(run for text in texts for run in set(runs(text, self.run)))
        return Frequencies(self.run, self.documents + len(texts), self.spread + more)

    def tensor(self) -> Tensor:
        """Words and counts, (U, run + 1), to be saved: doubles hold them exactly.

        A text that is shorter than a run is filled up with -1.
        """
        rows = [
            [*run, *[-1] * (self.run - len(run)), count]
            for run, count in sorted(self.spread.items())
        ]
        return torch.tensor(rows, dtype=torch.float64).view(len(rows), self.run + 1)

    @classmethod
    def from_tensor(cls, saved: Tensor, documents: int) -> Frequencies:
        """What `tensor` made, of so many documents."""
        rows = saved.long().tolist()
        spread = Counter({tuple(one for one in row[:-1] if one >= 0): row[-1] for row in rows})
        return cls(saved.shape[1] - 1, documents, spread)


def tfidf(
    texts: Sequence[Sequence[int]], frequencies: Frequencies, size: int, seed: int = 0
) -> Tensor:
    """Representations (N, K) from the words of the texts: TF-IDF, projected to K numbers.

    A word weighs (1 + log count) · (1 + log((1 + N) / (1 + documents that have it))), where the
    texts are counted in ``frequencies``; its direction depends on the word and the seed only. So
    a text that comes later has the representation that it would have had among the first.
    Runs of words (shingles) stand for words where they are counted. Rows have length √2.
    """
    documents = 1 + frequencies.documents
    rows = []
    for text in texts:
        count = Counter(runs(text, frequencies.run))
        weights = [
            (1 + math.log(many)) * (1 + math.log(documents / (1 + frequencies.spread[run])))
            for run, many in count.items()
        ]
        directions = torch.stack([_direction(run, size, seed) for run in count])
        rows.append(torch.tensor(weights) @ directions)
    return unit(torch.stack(rows))


def runs(text: Sequence[int], run: int) -> list[Run]:
    """All runs of so many words, or the whole text where it is shorter."""
    return [tuple(text[at : at + run]) for at in range(max(1, len(text) - run + 1))]


def _direction(run: Run, size: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(derive(seed, "direction", *run))
    return torch.randn(size, generator=generator)
