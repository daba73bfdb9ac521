"""What change and influence share: groups of tokens, equally large, and their distances."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mnemoscope.core.arrays import Ints
from mnemoscope.core.bounded import read_lines
from mnemoscope.core.errors import UserError
from mnemoscope.lenses.change.result import GroupedOptions, GroupedResult
from mnemoscope.lenses.inputs import Tokenised
from mnemoscope.lenses.similarity.lens import Similarity
from mnemoscope.lenses.statistics.groups import Groups, by_frequency, by_tags, counted
from mnemoscope.open import Reader

# How many groups of frequency are compared when nobody says how many tokens each must have.
LARGEST = 4


class Quota:
    """Give every group the same number of samples, spread evenly over the whole stream."""

    def __init__(self, groups: Groups, samples: int, seed: int = 0) -> None:
        if samples < 4:
            raise UserError(f"a group needs at least 4 samples, not {samples}")
        self.samples = samples
        self.taken = np.zeros(len(groups.names), dtype=np.int64)
        self._left = groups.counts.astype(np.float64)
        self._rng = np.random.default_rng(seed)

    def take(self, group: int, candidates: Ints, left: float | None = None) -> Ints:
        """Which of the candidates count: as large a part of the room as they are of all ``left``.

        By default ``left`` is what the groups' counts say is still to come. Filled to the last
        sample by the last candidates, like Knuth's selection sampling (algorithm S).
        """
        if left is None:
            left = self._left[group]
            self._left[group] -= len(candidates)
        room = int(self.samples - self.taken[group])
        share = len(candidates) / max(left, len(candidates), 1)
        number = min(int(room * share + self._rng.random()), len(candidates))
        chosen: Ints = np.sort(self._rng.choice(candidates, number, replace=False))
        self.taken[group] += number
        return chosen

    def full(self, group: int) -> bool:
        """Whether the group has all that it may have."""
        return bool(self.taken[group] >= self.samples)


def gather(lenses: Sequence[Similarity], groups: Groups, quota: Quota, what: str) -> GroupedResult:
    """Put the distances of all groups that are full side by side; a lens has seen each of them."""
    names = groups.names
    results = {
        name: lens.result()
        for number, (name, lens) in enumerate(zip(names, lenses, strict=True))
        if quota.full(number)
    }
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
        groups.by,
    )


def groups_of(given: Tokenised, texts: Sequence[str], options: GroupedOptions) -> Groups:
    """Groups by the tags that were given, or else by frequency."""
    reader = given.readers[0]
    if options.tags is None:
        return by_frequency(counted(reader, given.ids, length=given.length))
    tags = options.tags
    lines = [line.split() for line in read_lines(tags)] if isinstance(tags, Path) else tags
    if len(lines) != len(texts):
        raise UserError(f"{len(lines)} lines of tags for {len(texts)} lines of text")
    return by_tags(
        [
            _aligned(reader, number, ids, lines[number], given.length)
            for number, ids in zip(given.numbers, given.ids, strict=True)
        ]
    )


def quota_of(groups: Groups, options: GroupedOptions) -> int:
    """Tokens of every group: by default as many as the fourth largest has."""
    sizes = np.sort(groups.counts)[::-1]
    return options.samples or max(4, int(sizes[min(LARGEST, len(sizes)) - 1]))


def _aligned(reader: Reader, number: int, ids: Ints, tags: Sequence[str], length: int) -> list[str]:
    """A tag for every token; those that stand for no part of the text, such as [CLS], have none."""
    real = [int(token) not in reader.special for token in ids]
    if len(real) > length:
        raise UserError(
            f"line {number + 1} has {len(real)} tokens, {length} are read at once: tagged lines "
            "must be read whole, so give a larger --length or shorter lines"
        )
    if sum(real) != len(tags):
        spelled = [reader.decode(int(token)) for token in ids[np.array(real, dtype=bool)]]
        raise UserError(
            f"line {number + 1} has {len(tags)} tags for {sum(real)} tokens: {' '.join(spelled)}"
        )
    given = iter(tags)
    return [next(given) if is_real else "" for is_real in real]
