"""Tokens put into groups: by how frequent they are, by tags, or in any way of one's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from mnemoscope.activations.batches import to_batches
from mnemoscope.activations.capture import Observed
from mnemoscope.core.arrays import Ints
from mnemoscope.core.errors import UserError
from mnemoscope.open import open_reader

# Ends of the ranks of Voita 2019.
EDGES = (10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000)


@dataclass(frozen=True, eq=False)
class Groups:
    """Which group each token belongs to.

    names   of the groups
    of      (tokens, positions, rows), each (N,) -> number of the group (N,), −1 for none
    counts  how many tokens of each group there will be; decides how they are thinned out
    by      what they are grouped by
    """

    names: tuple[str, ...]
    of: Callable[[Ints, Ints, Ints], Ints]
    counts: Ints
    by: str = "group"

    def __call__(self, seen: Observed) -> Ints:
        """The group of every token of a batch."""
        return self.of(seen.tokens, seen.positions, seen.rows)


def counted(model: Any, inputs: Any, *, tokenizer: Any = None, length: int | None = None) -> Ints:
    """All tokens that `capture` would show of these inputs; no model runs."""
    reader = open_reader(model, tokenizer)
    ids = [one.numpy().ravel() for one, _ in to_batches(reader, inputs, length, 32)]
    tokens = np.concatenate(ids)
    return tokens[~np.isin(tokens, list(reader.special))]


def by_frequency(tokens: Iterable[int] | Ints, edges: Sequence[int] = EDGES) -> Groups:
    """Groups of ranks: the ``edges[0]`` most frequent kinds of tokens, the next ones, and so on."""
    if list(edges) != sorted(set(edges)) or not edges or edges[0] < 1:
        raise UserError(f"edges must be increasing ranks of at least 1, not {list(edges)}")
    kinds, counts = np.unique(np.asarray(tokens), return_counts=True)
    if not len(kinds):
        raise UserError("there are no tokens to count")
    order = np.argsort(-counts, kind="stable")
    rank = np.empty(len(kinds), dtype=np.int64)
    rank[order] = np.arange(len(kinds))
    last = int(np.searchsorted(edges, len(kinds)))  # the edge that takes in the rarest
    ends = [*edges[:last], min(len(kinds), edges[min(last, len(edges) - 1)])]
    group = np.searchsorted(ends, rank, side="right")
    names = tuple(f"rank {low + 1}–{high}" for low, high in pairwise([0, *ends]))

    def of(tokens: Ints, positions: Ints, rows: Ints) -> Ints:
        which = np.searchsorted(kinds, tokens).clip(max=len(kinds) - 1)
        known = (kinds[which] == tokens) & (group[which] < len(names))
        return np.where(known, group[which], -1)

    sizes = np.bincount(group, weights=counts, minlength=len(names))[: len(names)]
    return Groups(names, of, sizes.astype(np.int64), "frequency")


def by_tags(tags: Sequence[Sequence[str]]) -> Groups:
    """Groups by tags such as parts of speech: ``tags[text][position]``, "" for none."""
    counts = Counter(tag for text in tags for tag in text if tag)
    names = tuple(sorted(counts))
    number = {name: which for which, name in enumerate(names)}
    if not names:
        raise UserError("no token has a tag")

    def of(tokens: Ints, positions: Ints, rows: Ints) -> Ints:
        try:
            found = [number.get(tags[row][at], -1) for row, at in zip(rows, positions, strict=True)]
        except IndexError as error:
            raise UserError(
                "there are fewer tags than tokens: give one tag for every token of every text, and "
                "read the texts whole"
            ) from error
        return np.array(found, dtype=np.int64)

    return Groups(names, of, np.array([counts[name] for name in names]), "tag")


def everything(count: int) -> Groups:
    """One group of all tokens."""
    return Groups(
        ("all tokens",), lambda tokens, positions, rows: np.zeros_like(tokens), np.array([count])
    )
