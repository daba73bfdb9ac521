"""The task: what is said next in a conversation, having read the document it is about."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from mnemoscope.core.arrays import Ints
from mnemoscope.core.errors import UserError
from mnemoscope.data.batch import NO_QUESTION, Batch, Split, Task
from mnemoscope.data.dialogue.conversation import Conversation, Document, another_document
from mnemoscope.data.dialogue.made_up import MadeUpOptions
from mnemoscope.data.dialogue.prepared import Prepared, made_up, prepared
from mnemoscope.data.dialogue.running_text import cut
from mnemoscope.data.dialogue.script import NONE, Script, Written, write
from mnemoscope.data.vocabulary import SMALLEST_BPE, Vocabulary

log = logging.getLogger(__name__)

Control = Literal["own", "none", "another"]
# Conversations that are made up when nobody says how many.
_SOME = 64


class Dialogue(MadeUpOptions, Task):
    """The next token of the replies in a conversation, having read the document it is about.

    A row is a conversation: the sections of the document, a mark (here §) before each, then the
    turns, a mark of the speaker before (> asks, < tells) and a mark (/) after each. Without a
    source it is made up: ``Dialogue(sections=2, facts=1, asked=1, names=2, values=2)``:

        tokens   § babo likes salt . § befa likes tea . > babo ? / < babo    salt
        targets  . .    .     .    . . .    .     .   . . .    . . . salt .

    State begins anew with every row. Rows of a batch are padded at the end. In the made-up corpus
    the answers are asked for, a token each, and ages are known; in others all that is said and
    the ends of turns, and ages are not known. ``document`` says what is read first: the
    conversation's own document, none, or that of another conversation.

    A source is parted as it says itself, or else by document; a conversation that is in a part
    held out is left out of training. BPE learns from the part to train on. Documents longer than
    ``document_tokens`` lose their end, turns beyond ``conversation_tokens`` are left out. With
    ``piece`` rows are pieces of running text instead, in the same tokens: see `running_text`.
    """

    source: str | None = Field(
        None,
        description="the folder of CMU-DoG or Topical-Chat, or a JSON file or folder of your own; "
        "none = made up",
    )
    document: Control = Field(
        "own", description="what is read first: the own document, none, or another one's"
    )
    vocabulary_size: int = Field(
        2048, ge=SMALLEST_BPE, description="most tokens BPE may learn from a source"
    )
    document_tokens: int = Field(
        2048, ge=1, description="longer documents of a source lose their end"
    )
    conversation_tokens: int = Field(
        1024, ge=4, description="turns of a source that go beyond are left out"
    )
    held_out: float = Field(
        0.1, gt=0, lt=0.5, description="share of documents for each part that a source lacks"
    )

    piece: int | None = Field(
        None,
        ge=2,
        description="of a source: read its documents in pieces of so many tokens, all learnt, in "
        "place of conversations",
    )
    texts: str | None = Field(
        None, description="with piece: a file or folder of text that is read too"
    )

    @model_validator(mode="after")
    def _made_up_or_read(self) -> Self:
        fields = MadeUpOptions.model_fields
        changed = [name for name in fields if getattr(self, name) != fields[name].default]
        if self.source is not None and changed:
            raise ValueError(
                f"{changed[0]} belongs to the made-up corpus: leave it out, or the source"
            )
        if self.source is None and self.piece is not None:
            raise ValueError("piece belongs to a source: name one, or leave it out")
        if self.texts is not None and self.piece is None:
            raise ValueError("texts are read in pieces: give piece, or leave them out")
        return self

    @property
    def script(self) -> Script:
        """How conversations are written as tokens."""
        return _corpus(self).script

    @property
    def common(self) -> frozenset[str]:
        """Words that are distinctive of no document: most have them."""
        return _corpus(self).common

    @property
    def vocabularies(self) -> dict[str, Vocabulary]:
        """What a run keeps; the made-up corpus is its options."""
        vocabulary = _corpus(self).vocabulary
        return {} if vocabulary is None else {"vocabulary.json": vocabulary}

    @property
    def digest(self) -> str | None:
        """A fingerprint of all tokens, None of what is made up."""
        corpus = _corpus(self)
        if corpus.vocabulary is None:
            return None
        words = corpus.vocabulary.decode(np.arange(corpus.vocabulary.size))
        digest = hashlib.blake2b(words.encode(), digest_size=16)
        if self.piece is not None:
            digest.update(b"".join(rows.tobytes() for rows in _pieces(self).values()))
            return digest.hexdigest()
        for part in corpus.filled:
            for row in _part(self, part)[1]:
                digest.update(row.ids.tobytes())
        return digest.hexdigest()

    @property
    def vocab(self) -> int:
        """How many token ids exist, marks included."""
        return 1 + max(mark for marks in self.script.speakers for mark in marks)

    @property
    def longest(self) -> int:
        """Tokens of the longest conversation with its document, or of a piece."""
        if self.piece is not None:
            return self.piece
        if self.source is None:
            whole = self.document != "none"
            return (self.made_up_length if whole else self.made_up_turns_length) - 1
        return (
            max(len(row.ids) for part in _corpus(self).filled for row in _part(self, part)[1]) - 1
        )

    @property
    def majority(self) -> float | None:
        """Chance in the made-up corpus, where every answer is equally likely."""
        return 1 / self.values if self.source is None else None

    def conversations(
        self, split: Split, count: int | None = None, *, seed: int = 0
    ) -> list[Conversation]:
        """Return the conversations of a part, or the first ``count``; made up, 64 or so many."""
        if self.source is None:
            made_up = _SOME if count is None else count
            return self.make_up(made_up, self.generator(0, seed, split))
        return _part(self, split)[0][:count]

    def written(
        self, conversations: Sequence[Conversation], document: Control | None = None
    ) -> list[Written]:
        """Return conversations as tokens, after the document that the task or ``document`` says."""
        return list(self._each_written(conversations, document or self.document))

    def text_of(self, ids: Sequence[int] | Ints) -> str:
        """Return what tokens say, with § before a section, 1> before a turn and ∎ after it."""
        corpus, pieces, text = _corpus(self), [], []
        for token in [int(one) for one in ids] + [NONE]:
            if 0 <= token < corpus.size:
                text.append(token)
                continue
            pieces += [corpus.decode(text).strip()] if text else []
            pieces += [corpus.marks[token]] if token != NONE else []
            text = []
        return " ".join(pieces)

    def batch(
        self, step: int, size: int, *, seed: int, split: Split = "train", length: int = 128
    ) -> Batch:
        """Return ``size`` conversations or pieces: drawn at random to train on, else in turn."""
        if self.piece is not None:
            read = _pieces(self)[split]
            places = self.choose(len(read), step, size, seed, split)
            chosen = read[places].astype(np.int64)
            return Batch.episodes(chosen[:, :-1], chosen[:, 1:])
        if self.source is None:
            # One more than there are rows, so that the last one has another one's document too.
            drawn = self.make_up(size + 1, self.generator(step, seed, split))
            rows = [_row(one) for one in self.written(drawn)[:size]]
        else:
            known = _part(self, split)[1]
            rows = [known[i] for i in self.choose(len(known), step, size, seed, split)]
        longest = max(len(row.ids) for row in rows) - 1
        end = self.script.end[0]
        tokens = np.full((size, longest), end, dtype=np.int64)
        targets = np.full_like(tokens, NO_QUESTION)
        ages = np.zeros_like(tokens)
        for place, row in enumerate(rows):
            here = slice(len(row.ids) - 1)
            tokens[place, here] = row.ids[:-1]
            targets[place, here] = np.where(row.reply[1:], row.ids[1:], NO_QUESTION)
            ages[place, here] = np.where(row.reply[1:], row.ages[1:], 0)
        return Batch.episodes(tokens, targets, ages)

    def _each_written(
        self, conversations: Sequence[Conversation], control: Control
    ) -> Iterator[Written]:
        documents: Sequence[Document | Literal["own"] | None]
        if control == "another":
            documents = another_document(conversations)
        else:
            documents = ["own" if control == "own" else None] * len(conversations)
        made_up = self.source is None
        for conversation, document in zip(conversations, documents, strict=True):
            yield write(
                conversation,
                self.script,
                document,
                document_tokens=None if made_up else self.document_tokens,
                conversation_tokens=None if made_up else self.conversation_tokens,
                common=self.common,
            )


@dataclass(frozen=True)
class _Row:
    """What batches need of a conversation, small enough to keep all of them."""

    ids: NDArray[np.int32]
    reply: NDArray[np.bool_]
    ages: NDArray[np.int32]


def _row(written: Written) -> _Row:
    # How old a section is says nothing of where an answer was read.
    ages = np.where(written.answer != NONE, written.age, 0)
    return _Row(written.ids.astype(np.int32), written.reply, ages.astype(np.int32))


# A config is frozen, so it can stand for its corpus; a few suffice, as corpora may be large.
@lru_cache(maxsize=4)
def _corpus(task: Dialogue) -> Prepared:
    if task.source is None:
        return made_up(task.made_up_lexicon)
    return prepared(task.source, task.held_out, task.vocabulary_size)


@lru_cache(maxsize=2)
def _pieces(task: Dialogue) -> dict[Split, Ints]:
    corpus = _corpus(task)
    assert corpus.vocabulary is not None
    assert task.piece is not None
    documents = dict.fromkeys(one.document for one in corpus.parts["train"])
    return cut(documents, task.texts, corpus.vocabulary, corpus.script.section, task.piece)


@lru_cache(maxsize=16)
def _part(task: Dialogue, split: Split) -> tuple[list[Conversation], list[_Row]]:
    """The conversations of a part, without those of which no reply fits, and their rows."""
    given = _corpus(task).parts[split]
    rows = map(_row, task._each_written(given, task.document))
    pairs = [(one, row) for one, row in zip(given, rows, strict=True) if row.reply.any()]
    if len(pairs) < len(given):
        log.warning(
            "%d conversations are left out of %s: no reply of theirs fits into "
            "conversation_tokens=%d",
            len(given) - len(pairs),
            split,
            task.conversation_tokens,
        )
    if not pairs:
        raise UserError(
            f"no conversation is left for the part {split!r}: give more documents, or a larger "
            f"conversation_tokens than {task.conversation_tokens}"
        )
    return [one for one, _ in pairs], [row for _, row in pairs]
