"""Running text in pieces: what a model reads before it learns from conversations.

Pieces of 4 tokens, from the documents to train on (§ begins a section) and other texts:

    text     § tea grows on hills . § salt is white .
    tokens   § tea grows on | hills . § salt | …
    targets  tea grows on hills | . § salt is | …
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from mnemoscope.core.arrays import Ints
from mnemoscope.core.errors import UserError
from mnemoscope.data.batch import Split
from mnemoscope.data.dialogue.conversation import Document
from mnemoscope.data.documents import read_documents
from mnemoscope.data.vocabulary import Vocabulary

# One piece of so many is held out, to see how well the others were learnt.
HELD_OUT = 20


def cut(
    documents: Iterable[Document],
    texts: str | None,
    vocabulary: Vocabulary,
    section: tuple[int, ...],
    length: int,
) -> dict[Split, Ints]:
    """Pieces (n, length + 1) of documents and of the texts of a source, one after the other.

    Every token of a piece but its first is to be learnt; the last one begins the next piece.
    """
    joined = np.concatenate([*_streams(documents, texts, vocabulary, section)])
    count = (len(joined) - 1) // length
    if count < HELD_OUT:
        raise UserError(
            f"documents and texts have {len(joined)} tokens: {HELD_OUT} pieces of {length} need "
            f"{HELD_OUT * length + 1}; give more text, or a smaller piece"
        )
    where = np.arange(count)[:, None] * length + np.arange(length + 1)
    held = np.arange(count) % HELD_OUT == HELD_OUT - 1
    rows = joined[where].astype(np.int32)
    return {"train": rows[~held], "valid": rows[held], "test": rows[held]}


def _streams(
    documents: Iterable[Document],
    texts: str | None,
    vocabulary: Vocabulary,
    section: tuple[int, ...],
) -> Iterator[Ints]:
    found = [part for document in documents for part in document.sections]
    found += [] if texts is None else [one.text for one in read_documents(texts)]
    for text in found:
        yield np.array(section, dtype=np.int64)
        # With a space in front, as conversations are written.
        yield vocabulary.encode(f" {text}")
