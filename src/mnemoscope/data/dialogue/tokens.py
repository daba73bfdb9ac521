"""Text as token ids, and which characters each of them stands for."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from mnemoscope.core.arrays import Ints
from mnemoscope.core.errors import UserError, shown
from mnemoscope.data.vocabulary import Merges

# text -> ids (n,), and begin and end of each in characters of the text (n, 2)
Encode = Callable[[str], tuple[Ints, Ints]]

_WORD = re.compile(r"\S+")
# A corpus comes back to the sections of its documents with every conversation.
_RECENT = 4096


def by_word(lexicon: Sequence[str]) -> Encode:
    """Encode text whose words stand between spaces, by their place in a lexicon."""
    ids = {word: number for number, word in enumerate(lexicon)}

    def encode(text: str) -> tuple[Ints, Ints]:
        matches = list(_WORD.finditer(text))
        for match in matches:
            if match.group() not in ids:
                raise UserError(f"the made-up corpus has no word {shown(match.group())}")
        numbers = np.array([ids[match.group()] for match in matches], dtype=np.int64)
        return numbers, np.array([match.span() for match in matches]).reshape(-1, 2)

    return encode


def by_bpe(vocabulary: Merges) -> Encode:
    """Encode text with a BPE vocabulary; its tokens are bytes, their places are characters."""
    widths = vocabulary.widths

    @lru_cache(maxsize=_RECENT)
    def encode(text: str) -> tuple[Ints, Ints]:
        ids = vocabulary.encode(text)
        ends = np.cumsum(widths[ids])
        spans = np.stack((ends - widths[ids], ends), 1)
        if not text.isascii():
            # A character belongs to all tokens that have a byte of it.
            bytes_to = np.cumsum([len(letter.encode()) for letter in text])
            spans[:, 0] = np.searchsorted(bytes_to, spans[:, 0], side="right")
            spans[:, 1] = np.searchsorted(bytes_to, spans[:, 1], side="left") + 1
        return ids, spans

    return encode
