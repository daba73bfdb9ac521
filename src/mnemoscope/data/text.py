"""Predict what comes next in a text, read as endless parallel lanes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from mnemoscope.core.config import DISTINCT
from mnemoscope.core.errors import UserError
from mnemoscope.core.seeds import derive
from mnemoscope.data.batch import Batch, Split, Task
from mnemoscope.data.documents import Document, choose, read_documents
from mnemoscope.data.vocabulary import SMALLEST_BPE, Alphabet, Bytes, Merges, Unit, Vocabulary

# With fewer documents than this a whole one is too large a share to hold out.
_ENOUGH_DOCUMENTS = 10
_BETWEEN_DOCUMENTS = "\n\n"


class Text(Task):
    """The next token of a text, at every token.

    The tokens are cut into as many equal lanes as the batch has rows, and every step reads the
    next ``length`` columns of all lanes. The text ``abcdefghi`` by characters, 2 rows, length 2,
    a bar between rows and two between steps:

        tokens   a b | e f || c d | g h
        targets  b c | f g || d e | h i

    Step 2 is step 0 again with ``starts`` set, as it is at step 0. A rest of a lane shorter than
    ``length`` is dropped. Text has one order: the seed changes nothing. Ages are unknown, 0.

    Held out for validation are the documents that ``valid`` names; else whole documents when there
    are ten or more, always the same ones; else the last part of the text. BPE learns from the
    training part only.
    """

    carries: ClassVar[bool] = True

    source: str | None = Field(
        None, description="a file, a folder, hf:OWNER/NAME[/CONFIG]; none = CPython's help topics"
    )
    unit: Unit = Field("bpe", description="what a token is: bytes, characters or bpe")
    vocabulary_size: int = Field(2048, description="most tokens BPE may learn; only for bpe")
    held_out: float = Field(0.1, gt=0, lt=1, description="share of the text kept for validation")
    valid: Annotated[tuple[str, ...] | None, DISTINCT] = Field(
        None, min_length=1, description="documents kept for validation instead, by name"
    )

    @model_validator(mode="after")
    def _large_enough(self) -> Self:
        if self.unit == "bpe" and self.vocabulary_size < SMALLEST_BPE:
            raise ValueError(
                f"vocabulary_size={self.vocabulary_size} is too small for byte-level BPE; make it "
                f"at least {SMALLEST_BPE} or set unit to bytes"
            )
        return self

    @property
    def vocabulary(self) -> Vocabulary:
        """The map between this text and its tokens."""
        return _corpus(self).vocabulary

    @property
    def vocabularies(self) -> dict[str, Vocabulary]:
        """What a run keeps."""
        return {"vocabulary.json": self.vocabulary}

    @property
    def digest(self) -> str:
        """A fingerprint of all tokens: equal for equal text, read in the same way."""
        corpus = _corpus(self)
        words = corpus.vocabulary.decode(np.arange(corpus.vocabulary.size))
        digest = hashlib.blake2b(words.encode(), digest_size=16)
        digest.update(corpus.train.tobytes())
        digest.update(corpus.valid.tobytes())
        return digest.hexdigest()

    @property
    def vocab(self) -> int:
        """How many token ids exist."""
        return self.vocabulary.size

    @property
    def longest(self) -> None:
        """None: a text is a stream that begins again when it ends."""
        return None

    def tokens(self, split: Split) -> NDArray[np.int32]:
        """Return all token ids of a split in reading order, read-only."""
        corpus = _corpus(self)
        return corpus.train if split == "train" else corpus.valid

    def batch(
        self, step: int, size: int, *, seed: int, split: Split = "train", length: int = 128
    ) -> Batch:
        """Return the ``length`` columns of ``size`` lanes that belong to ``step``."""
        ids = self.tokens(split)
        # One token less than there are, so that the very last one can still be a target.
        lane = (len(ids) - 1) // size
        steps = lane // length
        if steps < 1:
            raise UserError(
                f"the {split} text has {len(ids)} tokens, too few for {size} rows of {length}: "
                f"it needs {size * length + 1}; give more text, fewer rows or a smaller length"
            )
        column = step % steps * length
        where = lane * np.arange(size)[:, None] + column + np.arange(length)
        tokens = ids[where].astype(np.int64)
        targets = ids[where + 1].astype(np.int64)
        starts = np.full(size, column == 0)
        return Batch(tokens, targets, np.zeros_like(tokens), starts)


@dataclass(frozen=True)
class _Corpus:
    vocabulary: Vocabulary
    train: NDArray[np.int32]
    valid: NDArray[np.int32]


# A config is frozen, so it can stand for its corpus; a few suffice, as corpora may be large.
@lru_cache(maxsize=4)
def _corpus(task: Text) -> _Corpus:
    train, valid = split_documents(read_documents(task.source), task.held_out, task.valid)
    vocabulary: Vocabulary
    if task.unit == "bytes":
        vocabulary = Bytes()
    elif task.unit == "characters":
        vocabulary = Alphabet(train + valid)
    else:
        vocabulary = Merges.learn(train, task.vocabulary_size)
    return _Corpus(vocabulary, _ids(vocabulary, train), _ids(vocabulary, valid))


def _ids(vocabulary: Vocabulary, text: str) -> NDArray[np.int32]:
    # Kept in half the width of a batch, and read-only because every batch shares them.
    ids = vocabulary.encode(text).astype(np.int32)
    ids.flags.writeable = False
    return ids


def split_documents(
    documents: list[Document], held_out: float, valid: Sequence[str] | None = None
) -> tuple[str, str]:
    """Return the texts to train on and to validate on, documents a blank line apart."""
    count = len(documents)
    if valid is not None:
        named = choose(documents, valid)
        names = {document.name for document in named}
        if len(named) == count:
            raise UserError("every document is held out: leave some to train on")
        return _join(one for one in documents if one.name not in names), _join(named)
    if count < _ENOUGH_DOCUMENTS:
        text = _join(documents)
        cut = round(len(text) * (1 - held_out))
        return text[:cut], text[cut:]
    chosen = min(max(1, round(count * held_out)), count - 1)
    # Drawn from a fixed seed: neighbours in a sorted folder are alike, and no run may see them.
    rng = np.random.default_rng(derive(0, "held out"))
    held = set(rng.permutation(count)[:chosen].tolist())
    train = [document for i, document in enumerate(documents) if i not in held]
    return _join(train), _join(documents[i] for i in sorted(held))


def _join(documents: Iterable[Document]) -> str:
    return _BETWEEN_DOCUMENTS.join(document.text for document in documents)
