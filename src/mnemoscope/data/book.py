"""Say which document a passage is from: many tokens, one answer."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from mnemoscope.core.errors import UserError
from mnemoscope.data.batch import GOLDEN, NO_QUESTION, Batch, FixedLength, Split
from mnemoscope.data.documents import read_documents
from mnemoscope.data.vocabulary import SMALLEST_BPE, Unit, Vocabulary, learn


class Book(FixedLength):
    """After the last token of a passage: which of a few documents it was cut from.

    Many to one. Two documents, ``abababab`` and ``memorymemory``, by characters, ``length=4``; the
    passage is of the second:

        tokens   e m o r
        targets  . . . 1

    The longest ``books`` documents of the source take part, numbered by name. Passages held out
    come from the last part of every document, of which training sees nothing. All documents are
    asked equally often, so that who always names one is right in one of ``books`` cases. Passages
    to train on are drawn at random; those to validate on are the same for every seed.
    """

    asks_once: ClassVar[bool] = True

    source: str | None = Field(
        None, description="a folder, hf:OWNER/NAME[/CONFIG]; none = CPython's help topics"
    )
    books: int = Field(8, ge=2, description="most documents that take part, the longest ones")
    unit: Unit = Field("bpe", description="what a token is: bytes, characters or bpe")
    vocabulary_size: int = Field(1024, description="most tokens BPE may learn; only for bpe")
    length: int = Field(64, ge=1, description="tokens in a passage")
    held_out: float = Field(
        0.2, gt=0, lt=1, description="share of every document kept for validation"
    )

    @model_validator(mode="after")
    def _large_enough(self) -> Self:
        if self.unit == "bpe" and self.vocabulary_size < SMALLEST_BPE:
            raise ValueError(f"vocabulary_size must be at least {SMALLEST_BPE} for bpe")
        return self

    @property
    def vocabularies(self) -> dict[str, Vocabulary]:
        """What a run keeps."""
        return {"vocabulary.json": _corpus(self).vocabulary}

    @property
    def names(self) -> tuple[str, ...]:
        """The documents, in the order of their numbers."""
        return _corpus(self).names

    @property
    def vocab(self) -> int:
        """How many token ids a passage can have."""
        return _corpus(self).vocabulary.size

    @property
    def outputs(self) -> int:
        """How many documents take part."""
        return len(self.names)

    @property
    def majority(self) -> float:
        """One document is asked for as often as another."""
        return 1 / self.outputs

    @property
    def digest(self) -> str:
        """A fingerprint of all documents that take part."""
        corpus = _corpus(self)
        digest = hashlib.blake2b("\0".join(corpus.names).encode(), digest_size=16)
        for ids in (*corpus.train, *corpus.valid):
            digest.update(ids.tobytes())
        return digest.hexdigest()

    def batch(
        self, step: int, size: int, *, seed: int, split: Split = "train", length: int = 128
    ) -> Batch:
        """Return ``size`` passages."""
        if split == "test":
            raise UserError("this task keeps no test part; ask for split valid")
        corpus = _corpus(self)
        if split == "train":
            rng = self.generator(step, seed, split)
            labels, places = rng.integers(self.outputs, size=size), rng.random(size)
            texts = corpus.train
        else:
            turn, labels = np.divmod(np.arange(step * size, (step + 1) * size), self.outputs)
            places, texts = turn * GOLDEN % 1, corpus.valid
        tokens = np.empty((size, self.length), dtype=np.int64)
        for row, label, place in zip(tokens, labels, places, strict=True):
            text = texts[label]
            first = int(place * (len(text) - self.length + 1))
            row[:] = text[first : first + self.length]
        targets = np.full_like(tokens, NO_QUESTION)
        targets[:, -1] = labels
        return Batch.episodes(tokens, targets)


@dataclass(frozen=True)
class _Corpus:
    vocabulary: Vocabulary
    names: tuple[str, ...]
    train: tuple[NDArray[np.int64], ...]
    valid: tuple[NDArray[np.int64], ...]


# A config is frozen, so it can stand for its corpus; a few suffice, as corpora may be large.
@lru_cache(maxsize=4)
def _corpus(task: Book) -> _Corpus:
    documents = read_documents(task.source)
    chosen = sorted(documents, key=lambda one: (-len(one.text), one.name))[: task.books]
    chosen.sort(key=lambda one: one.name)
    if len(chosen) < 2:
        raise UserError(f"{task.source} is one document: give a folder of two or more")
    cuts = [round(len(one.text) * (1 - task.held_out)) for one in chosen]
    train = [one.text[:cut] for one, cut in zip(chosen, cuts, strict=True)]
    valid = [one.text[cut:] for one, cut in zip(chosen, cuts, strict=True)]
    known = learn(task.unit, "".join(train), "".join(valid), task.vocabulary_size)
    names = tuple(one.title for one in chosen)
    encoded = [tuple(known.encode(text) for text in texts) for texts in (train, valid)]
    for name, *parts in zip(names, *encoded, strict=True):
        if min(map(len, parts)) < task.length:
            raise UserError(
                f"{name} has {len(parts[0])} tokens to train on and {len(parts[1])} held out, "
                f"too few for a passage of {task.length}: give fewer books, a smaller length or "
                "another held_out"
            )
    return _Corpus(known, names, *encoded)
