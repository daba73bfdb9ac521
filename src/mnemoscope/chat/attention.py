"""Attention behind the tokens of a reply, by part of the document and by word. Imports no torch.

Shapes: K tokens said, N tokens read, P parts of the document.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mnemoscope.chat.reply import WordAttention
from mnemoscope.core.arrays import Floats, Ints


def by_part(rows: Sequence[Floats], parts: Ints, count: int, sinks: int) -> Floats:
    """Shares of attention on every part of the document, (K, P).

    rows   K rows (N,), each over the tokens read so far
    parts  (N,) the part that a token stands in, negative where none
    sinks  first tokens that count for no part: models lean on them whatever they say
    """
    found = np.zeros((len(rows), count))
    for number, row in enumerate(rows):
        stands = parts[: len(row)]
        inside = (stands >= 0) & (np.arange(len(row)) >= sinks)
        np.add.at(found[number], stands[inside], row[inside])
    return found


def by_word(
    ids: Sequence[int],
    text: Callable[[Sequence[int]], str],
    shares: Floats,
    labels: Sequence[str],
) -> tuple[WordAttention, ...]:
    """The words of a reply, each with the mean of the attention behind its tokens.

    ids     K tokens
    text    what tokens say; a word ends where the next one begins
    shares  (K, P) by part of the document, which ``labels`` are the names of
    """
    words = text(ids).split()
    if not words or not labels:
        return ()
    owner = [max(0, len(text(ids[: end + 1]).split()) - 1) for end in range(len(ids))]
    found = []
    for number, word in enumerate(words):
        own = [place for place, one in enumerate(owner) if one == number]
        mean = shares[own].mean(0) if own else np.zeros(len(labels))
        best = int(mean.argmax())
        label = labels[best] if mean[best] > 0 else ""
        found.append(WordAttention(word, float(mean.sum()), label, float(mean[best])))
    return tuple(found)
