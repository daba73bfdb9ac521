"""Predict what comes next in a text, read as endless parallel lanes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from mnemoscope.core.arrays import Ints
from mnemoscope.core.config import DISTINCT
from mnemoscope.core.errors import UserError
from mnemoscope.core.seeds import derive
from mnemoscope.data.batch import NO_QUESTION, Batch, Split, Task, part_sizes
from mnemoscope.data.documents import Document, choose, read_documents
from mnemoscope.data.vocabulary import SMALLEST_BPE, Unit, Vocabulary, learn

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

    A document begins anew: what a step has left of the one before is padded and asks nothing, and
    ``starts`` is set at the next step. Rows with more ends of documents take more steps, so each
    row begins again on its own. ``anew`` cuts documents into passages that begin anew as well: who
    reads a whole book with one state learns little of states that have just begun.

    Held out for validation are the documents that ``valid`` names; else whole documents when there
    are ten or more, always the same ones; else the last part of the text. A share for a ``test`` is
    taken in the same way, or the documents that ``tested`` names, since who chooses by the held-out
    text cannot report it. BPE learns from the training part only.
    """

    carries: ClassVar[bool] = True

    source: str | None = Field(
        None, description="a file, a folder, hf:OWNER/NAME[/CONFIG]; none = CPython's help topics"
    )
    unit: Unit = Field("bpe", description="what a token is: bytes, characters or bpe")
    vocabulary_size: int = Field(2048, description="most tokens BPE may learn; only for bpe")
    held_out: float = Field(0.1, gt=0, lt=1, description="share of the text kept for validation")
    test: float = Field(
        0.0, ge=0, lt=1, description="share kept for a test, on which none is chosen"
    )
    valid: Annotated[tuple[str, ...] | None, DISTINCT] = Field(
        None, min_length=1, description="documents kept for validation instead, by name"
    )
    tested: Annotated[tuple[str, ...] | None, DISTINCT] = Field(
        None, min_length=1, description="documents kept for a test too, by name; only with valid"
    )

    reset: Literal["document", "lane"] = Field(
        "document", description="where a row begins anew; lane = nowhere else, as older runs did"
    )

    anew: int | None = Field(
        None, ge=2, description="tokens of a document after which a row begins anew too; none = all"
    )

    @model_validator(mode="after")
    def _large_enough(self) -> Self:
        if self.unit == "bpe" and self.vocabulary_size < SMALLEST_BPE:
            raise ValueError(
                f"vocabulary_size={self.vocabulary_size} is too small for byte-level BPE; make it "
                f"at least {SMALLEST_BPE} or set unit to bytes"
            )
        if self.test and self.valid is not None:
            raise ValueError("a share is kept for a test only where valid names no documents")
        if self.tested is not None and self.valid is None:
            raise ValueError("tested names documents only where valid names some: set valid too")
        if self.anew is not None and self.reset != "document":
            raise ValueError("anew cuts documents into passages: leave reset at document")
        if self.held_out + self.test >= 1:
            raise ValueError(
                f"held_out={self.held_out} and test={self.test} leave nothing to learn"
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
        for part in corpus.parts.values():
            digest.update(part.tobytes())
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
        tokens = _corpus(self).parts[split]
        if split == "test" and not len(tokens):
            raise UserError("no text is kept for a test; set test to a share of it, or tested")
        return tokens

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
        rows = _lanes(self, split, size, length)
        chosen = np.array([row[step % len(row)] for row in rows])  # (B, 3): begin, end, anew
        where = chosen[:, :1] + np.arange(length)
        inside = where < chosen[:, 1:2]
        tokens = np.where(inside, ids[where % len(ids)], 0).astype(np.int64)
        # After its last token nothing is asked: the next document has nothing to do with it.
        asked = inside & ~np.isin(where + 1, _begins(self, split))
        targets = np.where(asked, ids[(where + 1) % len(ids)], NO_QUESTION).astype(np.int64)
        return Batch(tokens, targets, np.zeros_like(tokens), chosen[:, 2].astype(np.bool_))


def _begins(task: Text, split: Split) -> Ints:
    """Where in the tokens of a split documents begin, and passages, if rows begin anew there."""
    corpus = _corpus(task)
    begins = corpus.begins[split]
    if task.reset != "document":
        return begins[:0]
    if task.anew is None:
        return begins
    ends = np.append(begins[1:], len(corpus.parts[split]))
    passages = [np.arange(*one, task.anew) for one in zip(begins, ends, strict=True)]
    return np.concatenate(passages)


@lru_cache(maxsize=8)
def _lanes(task: Text, split: Split, size: int, length: int) -> list[Ints]:
    """Of every row the pieces that its steps read, (pieces, 3): begin, end, whether it is anew."""
    lane = (len(task.tokens(split)) - 1) // size
    begins = _begins(task, split)
    rows = []
    for first in range(0, size * lane, lane):
        inside = begins[(begins > first) & (begins < first + lane)]
        pieces = []
        for begin, end in pairwise([first, *inside.tolist(), first + lane]):
            at = np.arange(begin, end, length)
            pieces.append(np.stack((at, np.minimum(at + length, end), at == begin), 1))
        # A rest of the lane that does not fill a step is dropped.
        rest = lane - (pieces[-1][0, 0] - first)
        pieces[-1] = pieces[-1][: rest // length]
        rows.append(np.concatenate(pieces))
    return rows


@dataclass(frozen=True)
class _Corpus:
    vocabulary: Vocabulary
    parts: dict[Split, NDArray[np.int32]]
    begins: dict[Split, Ints]


# A config is frozen, so it can stand for its corpus; a few suffice, as corpora may be large.
@lru_cache(maxsize=4)
def _corpus(task: Text) -> _Corpus:
    documents = read_documents(task.source)
    parts = split_documents(documents, task.held_out, task.valid, task.test, task.tested or ())
    texts = {part: "".join(pieces) for part, pieces in parts.items()}
    rest = "".join(text for part, text in texts.items() if part != "train")
    vocabulary = learn(task.unit, texts["train"], rest, task.vocabulary_size)
    ids = {part: _ids(vocabulary, text) for part, text in texts.items()}
    begins = {part: _first_tokens(vocabulary, one, parts[part]) for part, one in ids.items()}
    return _Corpus(vocabulary, ids, begins)


def _first_tokens(vocabulary: Vocabulary, ids: NDArray[np.int32], pieces: list[str]) -> Ints:
    """Which token is the first that begins in each of the pieces, of which ids are the whole."""
    widths = vocabulary.widths[ids]
    before = np.cumsum([0, *(len(piece.encode()) for piece in pieces)])[:-1]
    found: Ints = np.searchsorted(np.cumsum(widths) - widths, before)
    return found


def _ids(vocabulary: Vocabulary, text: str) -> NDArray[np.int32]:
    # Kept in half the width of a batch, and read-only because every batch shares them.
    ids = vocabulary.encode(text).astype(np.int32)
    ids.flags.writeable = False
    return ids


def split_documents(
    documents: list[Document],
    held_out: float,
    valid: Sequence[str] | None = None,
    test: float = 0.0,
    tested: Sequence[str] = (),
) -> dict[Split, list[str]]:
    """Return the documents to train, to validate and to test on, a blank line between two."""
    count = len(documents)
    if valid is not None:
        named, apart = choose(documents, valid), choose(documents, tested)
        both = [one.title for one in named if one in apart]
        if both:
            raise UserError(f"{both[0]!r} is named for validation and for the test: choose one")
        if len(named) + len(apart) == count:
            raise UserError("every document is held out: leave some to train on")
        rest = _spaced(one for one in documents if one not in named and one not in apart)
        return {"train": rest, "valid": _spaced(named), "test": _spaced(apart)}
    if count < _ENOUGH_DOCUMENTS:
        pieces = _spaced(documents)
        whole = sum(map(len, pieces))
        first, second = (round(whole * (1 - share - test)) for share in (held_out, 0))
        return {
            "train": _between(pieces, 0, first),
            "valid": _between(pieces, first, second),
            "test": _between(pieces, second, whole),
        }
    held, second = part_sizes(count, held_out, test)
    # Drawn from a fixed seed: neighbours in a sorted folder are alike, and no run may see them.
    rng = np.random.default_rng(derive(0, "held out"))
    chosen = np.split(rng.permutation(count), (held, held + second))
    valid_part, test_part, train = (_spaced(documents[i] for i in sorted(one)) for one in chosen)
    return {"train": train, "valid": valid_part, "test": test_part}


def _spaced(documents: Iterable[Document]) -> list[str]:
    """Texts of documents, each but the last with the blank line that parts it from the next."""
    texts = [document.text for document in documents]
    return [text + _BETWEEN_DOCUMENTS for text in texts[:-1]] + texts[-1:]


def _between(pieces: list[str], begin: int, end: int) -> list[str]:
    """What lies between two characters, counted through all pieces."""
    found, at = [], 0
    for piece in pieces:
        found.append(piece[max(0, begin - at) : max(0, end - at)])
        at += len(piece)
    return [piece for piece in found if piece]
