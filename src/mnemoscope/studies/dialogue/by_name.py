"""Document memory beside memories of a stream: documents learnt beforehand, opened by name.

The conversation is read within the window, as the floor reads it; no token of a document is. With
no document open the model is the floor, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from mnemoscope.data.dialogue.script import DOCUMENT, Written
from mnemoscope.huggingface.config import DocumentOptions
from mnemoscope.huggingface.documents.memory import DocumentMemory
from mnemoscope.huggingface.texts import Documents
from mnemoscope.studies.dialogue.result import Learnt

# Where it is kept in the folder of a study.
FOLDER = "documents"


def learn(
    written: Sequence[Written],
    model: Any,
    tokenizer: Any,
    folder: Path,
    entries: int,
    epochs: int,
) -> Learnt:
    """Learn all different documents, as they are written, and keep the memory in a folder."""
    ids = _different(written)
    memory = DocumentMemory(model, DocumentOptions(entries=entries), tokenizer)
    try:
        given = Documents({name: list(tokens) for tokens, name in ids.items()})
        fit = memory.fit(given, epochs=epochs)
        memory.save_pretrained(folder / FOLDER)
    finally:
        memory.detach()
    tokens = sum(map(len, ids))
    return Learnt(len(ids), tokens, fit.recited, fit.none, fit.right, fit.steps, fit.seconds)


class Learned:
    """The memory that `learn` kept, attached again."""

    def __init__(
        self, written: Sequence[Written], model: Any, tokenizer: Any, folder: Path
    ) -> None:
        self.names = _different(written)
        self.memory = DocumentMemory.from_pretrained(folder / FOLDER, model, tokenizer=tokenizer)

    def detach(self) -> None:
        """Take it off; the model is what it was."""
        self.memory.detach()

    @property
    def nbytes(self) -> int:
        """Bytes of all that it learnt, of all documents together."""
        return sum(one.numel() * one.element_size() for one in self.memory.weights.parameters())

    def opened(self, document: Written) -> AbstractContextManager[None]:
        """Open what was learnt of the document that is read before ``document``, if any is."""
        return self.memory.document(self.names.get(_document_of(document)))


def _different(written: Sequence[Written]) -> dict[tuple[int, ...], str]:
    """All different documents as token ids, and a name for each."""
    found = dict.fromkeys(_document_of(one) for one in written)
    return {ids: f"document {number}" for number, ids in enumerate(found, start=1)}


def _document_of(one: Written) -> tuple[int, ...]:
    return tuple(one.ids[one.part == DOCUMENT].tolist())
