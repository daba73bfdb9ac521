"""Long passages of books, and the stretches in which they are read.

Shapes: R passages, T tokens of a segment, K stretches of the reading, each twice as long as the one
before: the first segment, the second, the next two, the next four …
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemoscope.core.arrays import Floats, Ints
from mnemoscope.core.errors import UserError
from mnemoscope.data.documents import Document
from mnemoscope.data.vocabulary import Bytes, Vocabulary

# Controls read every so many segments; the state itself is carried through all of them.
PROBE = 4
# Rates are chosen by more passages of a book, and shorter ones: a quarter of what is reported.
TRIED, SHORTER = 16, 4


@dataclass(frozen=True, eq=False)
class Passage:
    """A stretch of a book: ids (n,) of its tokens, of which all but the last are read.

    widths  (n,) bytes of text that each token stands for
    """

    book: str
    ids: Ints
    widths: Ints

    def segments(self, length: int) -> int:
        """Whole segments that can be read, a next token known everywhere."""
        return (len(self.ids) - 1) // length

    def first(self, tokens: int) -> Passage:
        """So many tokens of its beginning."""
        return Passage(self.book, self.ids[:tokens], self.widths[:tokens])


def cut(
    books: Sequence[Document],
    read: int,
    most: int | None,
    segment: int,
    vocabulary: Vocabulary | None = None,
) -> list[Passage]:
    """Cut every book into at most ``most`` passages of ``read`` tokens, longest first.

    A book shorter than that is one passage. Without ``most`` the passages are a little longer and
    leave nothing of a book out. The longest is cut to the second longest, so that at every moment
    there is another one to exchange states with. Tokens are bytes unless a vocabulary is given.
    """
    known = vocabulary or Bytes()
    passages = []
    for book in books:
        ids = known.encode(book.text)
        widths = known.widths[ids]
        count = max(1, len(ids) // read)
        length = -(-len(ids) // count) if most is None else read
        count = count if most is None else min(most, count)
        for start in (len(ids) * place // count for place in range(count)):
            here = slice(start, start + length + 1)
            passages.append(Passage(book.title, ids[here], widths[here]))
    passages = [one for one in passages if one.segments(segment) > PROBE]
    passages.sort(key=lambda one: -one.segments(segment))
    if len(passages) < 2:
        raise UserError(
            "states are exchanged between passages, and what is held out gives fewer than two of "
            f"more than {PROBE} segments of {segment} tokens; hold out more or longer books"
        )
    longest = passages[1].segments(segment) * segment + 1
    return [passages[0].first(longest), *passages[1:]]


def cut_for_rates(
    books: Sequence[Document], read: int, segment: int, vocabulary: Vocabulary
) -> list[Passage]:
    """Passages of the books that learning rates are tried on."""
    return cut(books, max(8 * segment, read // SHORTER), TRIED, segment, vocabulary)


def count_words(text: str, line_ends: bool = False) -> int:
    """Words between white space; with ``line_ends`` each end of a line is one, as in WikiText."""
    return len(text.split()) + (text.count("\n") if line_ends else 0)


def asked_text(passage: Passage, segment: int, vocabulary: Vocabulary) -> str:
    """The text that a reader of whole segments has to predict."""
    return vocabulary.decode(passage.ids[1 : passage.segments(segment) * segment + 1])


def bigram_bits(
    train: NDArray[np.integer[Any]], passages: Sequence[Passage], vocab: int = 256
) -> float:
    """Bits per byte of counted pairs of tokens: what is trivial.

    A pair has been seen so often, and ``vocab`` times more by chance, as its second token is
    frequent; every token has been seen once more than it has.
    """
    once = np.bincount(train, minlength=vocab) + 1.0
    pairs = np.bincount(vocab * train[:-1].astype(np.int64) + train[1:], minlength=vocab**2)
    chance = pairs.reshape(vocab, vocab) + vocab * once / once.sum()
    cost = -np.log2(chance / chance.sum(1, keepdims=True))
    spent = sum(float(cost[one.ids[:-1], one.ids[1:]].sum()) for one in passages)
    return spent / sum(int(one.widths[1:].sum()) for one in passages)


def stretch(step: int) -> int:
    """Which stretch of the reading a segment belongs to."""
    return step.bit_length()


def starts(stretches: int, segment: int) -> NDArray[np.int64]:
    """Tokens read before each stretch, (K,)."""
    return np.array([0, *(segment * 2**place for place in range(stretches - 1))])


def lengths(passages: Sequence[Passage], segment: int, every: int = 1) -> Floats:
    """Tokens that each passage has in each stretch, of all segments or every few, (R, K)."""
    return _sums([np.ones_like(one.ids) for one in passages], segment, every)


def sizes(passages: Sequence[Passage], segment: int, every: int = 1) -> Floats:
    """The same in bytes of the text that is predicted there."""
    return _sums([one.widths for one in passages], segment, every)


def _sums(amounts: Sequence[Ints], segment: int, every: int) -> Floats:
    steps = [(len(one) - 1) // segment for one in amounts]
    found = np.zeros((len(amounts), 1 + stretch(max(steps) - 1)))
    for row, (values, count) in enumerate(zip(amounts, steps, strict=True)):
        # There is nothing to tamper with in the first segment: every few begins with the second.
        for step in range(0 if every == 1 else every, count, every):
            found[row, stretch(step)] += values[step * segment + 1 : (step + 1) * segment + 1].sum()
    return found
