"""Translate sentences: pairs split by source sentence, in batches of like length."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from mnemoscope.core.errors import UserError
from mnemoscope.core.seeds import derive
from mnemoscope.data import grammar
from mnemoscope.data.batch import NO_QUESTION, NO_WORD, Batch, Split, Task
from mnemoscope.data.grammar import MOST_CLAUSES, MOST_SENTENCES
from mnemoscope.data.parallel import Pair, read_pairs
from mnemoscope.data.vocabulary import SMALLEST_BPE, Merges, Vocabulary

log = logging.getLogger(__name__)

Ints = NDArray[np.int64]
Part = Literal["train", "valid", "test"]


class Translation(Task):
    """The next token of a translation, having read the source sentence.

    One more id than the vocabulary has ends every source and every target, and begins the target
    (here E); a dash is after the end of a source:

        source   I see E -          tokens   E ich sehe     targets   ich sehe   E
                 you all wait E              E ihr wartet             ihr wartet E

    ``size`` counts sentences of mean length: a batch holds about as many tokens whatever its
    sentences' length, many short or few long ones, all of like length so that little is padded.

    No source sentence of the validation or test part is seen in training, whatever its case or
    punctuation. BPE is learnt from the training part, a space before every sentence.
    """

    models: ClassVar[str] = "translator"

    corpus: str | None = Field(
        None,
        description="a table with tabs, FILE,FILE or hf:OWNER/NAME[/CONFIG]; "
        "none = two languages from a grammar",
    )
    columns: tuple[str, ...] | None = Field(
        None, description="source and target: numbers in a table, names in a dataset; none = 1,2"
    )
    vocabulary: Literal["joint", "separate"] = Field(
        "joint", description="one BPE for both sides, or one each"
    )
    vocabulary_size: int = Field(2048, ge=SMALLEST_BPE, description="most tokens BPE may learn")
    most_tokens: int = Field(
        100, ge=2, description="longer sentences are left out, on either side, end included"
    )
    held_out: float = Field(
        0.05, gt=0, lt=0.5, description="share of source sentences for validation, and for the test"
    )
    sentences: int = Field(
        20_000, ge=100, le=MOST_SENTENCES, description="sentences of the grammar"
    )
    clauses: int = Field(
        2, ge=1, le=MOST_CLAUSES, description="most clauses in a sentence of the grammar"
    )

    @model_validator(mode="after")
    def _two(self) -> Self:
        if self.columns is not None and (len(self.columns) != 2 or self.corpus is None):
            raise ValueError(f"columns={self.columns} must be two, of a corpus that is given")
        return self

    @property
    def vocab(self) -> int:
        """How many token ids the target has, its end among them."""
        return _corpus(self).target.size + 1

    @property
    def source_vocab(self) -> int:
        """How many token ids the source has, its end among them."""
        return _corpus(self).source.size + 1

    @property
    def longest(self) -> int:
        """Tokens in the longest target."""
        return self.most_tokens

    @property
    def vocabularies(self) -> dict[str, Vocabulary]:
        """What a run keeps."""
        corpus = _corpus(self)
        return {"vocabulary.json": corpus.target, "source-vocabulary.json": corpus.source}

    @property
    def digest(self) -> str:
        """A fingerprint of all pairs that are learnt from or validated on."""
        digest = hashlib.blake2b(digest_size=16)
        for part in ("train", "valid"):
            for pair in self.pairs(part):
                digest.update(f"{pair.source}\t{pair.target}\n".encode())
        return digest.hexdigest()

    def pairs(self, part: Part) -> Sequence[Pair]:
        """Return the pairs of one part as text, none of them too long."""
        return _corpus(self).parts[part].pairs

    def batch(
        self, step: int, size: int, *, seed: int, split: Split = "train", length: int = 128
    ) -> Batch:
        """Return the batch at ``step``; all of them are one pass over the sentences."""
        epoch, place = divmod(step, len(_cuts(self, split, size)))
        chosen = _epoch(self, split, size, seed, epoch)[place]
        part = _corpus(self).parts[split]
        source = _fill([part.sources[row] for row in chosen], NO_WORD)
        targets = _fill([part.targets[row] for row in chosen], NO_QUESTION)
        end = self.vocab - 1
        tokens = np.full_like(targets, end)
        tokens[:, 1:] = np.where(targets[:, :-1] == NO_QUESTION, end, targets[:, :-1])
        starts = np.ones(len(tokens), dtype=np.bool_)
        return Batch(tokens, targets, np.zeros_like(tokens), starts, source)


def encode(vocabulary: Vocabulary, lines: Sequence[str]) -> list[Ints]:
    """Return the ids of sentences, each with the id that ends it."""
    # With a space in front, a word is the same token at the start as anywhere else.
    spaced = [f" {line}" for line in lines]
    if isinstance(vocabulary, Merges):
        ids = vocabulary.encode_all(spaced)
    else:
        ids = [vocabulary.encode(line) for line in spaced]
    return [np.append(one, vocabulary.size) for one in ids]


def decode(vocabulary: Vocabulary, ids: Sequence[int]) -> str:
    """Return the sentence of ids without their end."""
    return vocabulary.decode(np.array(ids, dtype=np.int64)).strip()


@dataclass(frozen=True)
class _Encoded:
    """Pairs as text and as ids, the end included."""

    pairs: list[Pair]
    sources: list[Ints]
    targets: list[Ints]


@dataclass(frozen=True)
class _Corpus:
    source: Merges
    target: Merges
    parts: dict[Part, _Encoded]


# A config is frozen, so it can stand for its corpus; a few suffice, as corpora may be large.
@lru_cache(maxsize=4)
def _corpus(task: Translation) -> _Corpus:
    if task.corpus is None:
        made = grammar.sentences(task.sentences, task.clauses)
        pairs = [Pair(one.source, one.target) for one in made]
    else:
        pairs = read_pairs(task.corpus, task.columns)
    parts = split_pairs(pairs, task.held_out)
    sources = "\n".join(f" {pair.source}" for pair in parts["train"])
    targets = "\n".join(f" {pair.target}" for pair in parts["train"])
    if task.vocabulary == "joint":
        source = target = Merges.learn(f"{sources}\n{targets}", task.vocabulary_size)
    else:
        source = Merges.learn(sources, task.vocabulary_size)
        target = Merges.learn(targets, task.vocabulary_size)
    encoded = {
        name: _encode(part, source, target, task.most_tokens) for name, part in parts.items()
    }
    for name, part in encoded.items():
        if not part.pairs:
            raise UserError(
                f"no pair is left for the part {name!r}: give more than {len(pairs)} pairs, a "
                f"larger held_out than {task.held_out} or a larger most_tokens than "
                f"{task.most_tokens}"
            )
    return _Corpus(source, target, encoded)


def split_pairs(pairs: Sequence[Pair], held_out: float) -> dict[Part, list[Pair]]:
    """Part pairs by their source sentence, which alone decides; "Go!" and "go" are one sentence."""
    parts: dict[Part, list[Pair]] = {"train": [], "valid": [], "test": []}
    for pair in pairs:
        words = "".join(letter for letter in pair.source.casefold() if letter.isalnum())
        drawn = derive(0, "held out", words or pair.source) / 2**63
        part: Part = "test" if drawn < held_out else "valid" if drawn < 2 * held_out else "train"
        parts[part].append(pair)
    return parts


def _encode(pairs: list[Pair], source: Merges, target: Merges, most: int) -> _Encoded:
    sources = encode(source, [pair.source for pair in pairs])
    targets = encode(target, [pair.target for pair in pairs])
    kept = [row for row in range(len(pairs)) if max(len(sources[row]), len(targets[row])) <= most]
    log.info("%d of %d pairs are longer than %d tokens", len(pairs) - len(kept), len(pairs), most)
    return _Encoded(
        [pairs[row] for row in kept], [sources[row] for row in kept], [targets[row] for row in kept]
    )


@lru_cache(maxsize=8)
def _lengths(task: Translation, split: Split) -> tuple[Ints, Ints]:
    part = _corpus(task).parts[split]
    return np.array([len(one) for one in part.sources]), np.array(
        [len(one) for one in part.targets]
    )


@lru_cache(maxsize=8)
def _cuts(task: Translation, split: Split, size: int) -> list[slice]:
    """Where batches begin and end among sentences sorted by length: the same in every epoch."""
    sources, targets = _lengths(task, split)
    budget = size * float((sources + targets).mean())
    order = np.lexsort((sources, targets))
    cuts, first, widest = [], 0, 0
    for place, (source, target) in enumerate(zip(sources[order], targets[order], strict=True)):
        widest = max(widest, int(source))
        if place > first and (place + 1 - first) * (widest + int(target)) > budget:
            cuts.append(slice(first, place))
            first, widest = place, int(source)
    return [*cuts, slice(first, len(order))]


@lru_cache(maxsize=4)
def _epoch(task: Translation, split: Split, size: int, seed: int, epoch: int) -> list[Ints]:
    """The rows of every batch of one pass; who is with whom, and when, is drawn anew each time."""
    rng = np.random.default_rng(derive(seed, "data", split, epoch))
    sources, targets = _lengths(task, split)
    order = np.lexsort((rng.random(len(sources)), sources, targets))
    cuts = _cuts(task, split, size)
    return [order[cuts[place]] for place in rng.permutation(len(cuts))]


def _fill(rows: Sequence[Ints], blank: int) -> Ints:
    filled = np.full((len(rows), max(map(len, rows))), blank, dtype=np.int64)
    for line, row in zip(filled, rows, strict=True):
        line[: len(row)] = row
    return filled
