"""Long passages of books, and the stretches in which they are read.

Shapes: R passages, T bytes of a segment, K stretches of the reading, each twice as long as the one
before: the first segment, the second, the next two, the next four …
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemoscope.core.arrays import Floats
from mnemoscope.core.errors import UserError
from mnemoscope.data.documents import Document
from mnemoscope.data.vocabulary import Bytes

# Controls read every so many segments; the state itself is carried through all of them.
PROBE = 4


@dataclass(frozen=True, eq=False)
class Passage:
    """A stretch of a book: ids (n,) of its bytes, of which all but the last are read."""

    book: str
    ids: NDArray[np.int64]

    def segments(self, length: int) -> int:
        """Whole segments that can be read, a next byte known everywhere."""
        return (len(self.ids) - 1) // length


def cut(books: Sequence[Document], read: int, most: int, segment: int) -> list[Passage]:
    """Cut every book into at most ``most`` passages of ``read`` bytes, longest first.

    A book shorter than that is one passage. The longest is cut to the second longest, so that at
    every moment there is another one to exchange states with.
    """
    passages = []
    for book in books:
        ids = Bytes().encode(book.text)
        count = max(1, min(most, len(ids) // read))
        for start in (len(ids) * place // count for place in range(count)):
            passages.append(Passage(book.title, ids[start : start + read + 1]))
    passages = [one for one in passages if one.segments(segment) > PROBE]
    passages.sort(key=lambda one: -one.segments(segment))
    if len(passages) < 2:
        raise UserError(
            "states are exchanged between passages, and what is held out gives fewer than two of "
            f"more than {PROBE} segments of {segment} bytes; hold out more or longer books"
        )
    longest = passages[1].segments(segment) * segment + 1
    return [replace(passages[0], ids=passages[0].ids[:longest]), *passages[1:]]


def bigram_bits(train: NDArray[np.integer[Any]], passages: Sequence[Passage]) -> float:
    """Bits per byte of counted pairs of bytes, each pair once more than seen: what is trivial."""
    counts = (
        np.bincount(256 * train[:-1].astype(np.int64) + train[1:], minlength=256 * 256).reshape(
            256, 256
        )
        + 1.0
    )
    cost = -np.log2(counts / counts.sum(1, keepdims=True))
    return float(np.concatenate([cost[one.ids[:-1], one.ids[1:]] for one in passages]).mean())


def stretch(step: int) -> int:
    """Which stretch of the reading a segment belongs to."""
    return step.bit_length()


def starts(stretches: int, segment: int) -> NDArray[np.int64]:
    """Bytes read before each stretch, (K,)."""
    return np.array([0, *(segment * 2**place for place in range(stretches - 1))])


def lengths(passages: Sequence[Passage], segment: int, every: int = 1) -> Floats:
    """Bytes that each passage has in each stretch, of all segments or every few, (R, K)."""
    steps = [one.segments(segment) for one in passages]
    found = np.zeros((len(passages), 1 + stretch(max(steps) - 1)))
    for row, count in enumerate(steps):
        # There is nothing to tamper with in the first segment: every few begins with the second.
        for step in range(0 if every == 1 else every, count, every):
            found[row, stretch(step)] += segment
    return found
