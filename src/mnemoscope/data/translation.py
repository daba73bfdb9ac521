"""Translate sentences: pairs split by source sentence, in batches of like length."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from mnemoscope.core.arrays import Ints
from mnemoscope.core.config import Config
from mnemoscope.core.errors import UserError
from mnemoscope.core.seeds import derive
from mnemoscope.data import grammar
from mnemoscope.data.batch import NO_QUESTION, NO_WORD, Batch, Split, Task
from mnemoscope.data.grammar import MOST_CLAUSES, MOST_SENTENCES
from mnemoscope.data.parallel import Pair, read_pairs
from mnemoscope.data.vocabulary import SMALLEST_BPE, Merges, Vocabulary

log = logging.getLogger(__name__)

Part = Literal["train", "valid", "test"]


class PairOptions(Config):
    """Where sentence pairs come from, and their parts."""

    corpus: str | None = Field(
        None,
        description="a table with tabs, FILE,FILE or hf:OWNER/NAME[/CONFIG][:SPLIT]; "
        "none = two languages from a grammar",
    )
    valid: str | None = Field(
        None, description="pairs to validate on, given as corpus is; none = a share of the corpus"
    )
    test: str | None = Field(
        None, description="pairs of the test, given as corpus is; none = a share of the corpus"
    )
    columns: tuple[str, ...] | None = Field(
        None, description="source and target: numbers in a table, names in a dataset; none = 1,2"
    )
    vocabulary_size: int = Field(2048, ge=SMALLEST_BPE, description="most tokens BPE may learn")
    held_out: float = Field(
        0.05, gt=0, lt=0.5, description="share of source sentences for validation, and for the test"
    )
    sentences: int = Field(
        20_000, ge=100, le=MOST_SENTENCES, description="sentences of the grammar"
    )
    clauses: int = Field(
        2, ge=1, le=MOST_CLAUSES, description="most clauses in a sentence of the grammar"
    )


class PairsTask(PairOptions, Task):
    """What the tasks on sentence pairs share: which pairs, and the tokens these are cut into."""

    vocabulary: Literal["joint", "separate"] = Field(
        "joint", description="one BPE for both sides, or one each"
    )
    most_tokens: int = Field(
        100, ge=2, description="longer sentences are left out, on either side, end included"
    )

    @model_validator(mode="after")
    def _of_a_corpus(self) -> Self:
        if self.columns is not None and (len(self.columns) != 2 or self.corpus is None):
            raise ValueError(f"columns={self.columns} must be two, of a corpus that is given")
        if self.corpus is None and (self.valid or self.test) is not None:
            raise ValueError("valid and test belong to a corpus: give the pairs to train on too")
        return self

    @property
    def longest(self) -> int:
        """Tokens in the longest sentence."""
        return self.most_tokens


class Translation(PairsTask):
    """The next token of a translation, having read the source sentence.

    One more id than the vocabulary has ends every source and every target, and begins the target
    (here E); a dash is after the end of a source:

        source   I see E -          tokens   E ich sehe     targets   ich sehe   E
                 you all wait E              E ihr wartet             ihr wartet E

    ``size`` counts sentences of mean length: a batch holds about as many tokens whatever its
    sentences' length, many short or few long ones, all of like length so that little is padded.

    No source sentence of the validation or test part is seen in training, whatever its case or
    punctuation: where files are given for them, what the corpus shares with these is left out of
    training. BPE is learnt from the training part, a space before every sentence.
    """

    models: ClassVar[str] = "translator"

    @property
    def vocab(self) -> int:
        """How many token ids the target has, its end among them."""
        return _corpus(self).target.size + 1

    @property
    def source_vocab(self) -> int:
        """How many token ids the source has, its end among them."""
        return _corpus(self).source.size + 1

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
        """Return the pairs of one part as text, none too long but those of a test that is given."""
        return _corpus(self).parts[part].pairs

    @property
    def overlap(self) -> int:
        """Pairs of the corpus, and of ``valid``, left out: their source is in a part held out."""
        return _corpus(self).overlap

    def seen(self, pairs: Sequence[Pair]) -> int:
        """How many of these pairs have a source that is among those to train on."""
        known = {_bare(pair.source) for pair in self.pairs("train")}
        return sum(_bare(pair.source) in known for pair in pairs)

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
        return Batch.episodes(tokens, targets, source=source)


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
    overlap: int


# A config is frozen, so it can stand for its corpus; a few suffice, as corpora may be large.
@lru_cache(maxsize=4)
def _corpus(task: Translation) -> _Corpus:
    parts, overlap = _parts(task)
    sources = "\n".join(f" {pair.source}" for pair in parts["train"])
    targets = "\n".join(f" {pair.target}" for pair in parts["train"])
    if task.vocabulary == "joint":
        source = target = Merges.learn(f"{sources}\n{targets}", task.vocabulary_size)
    else:
        source = Merges.learn(sources, task.vocabulary_size)
        target = Merges.learn(targets, task.vocabulary_size)
    # A test that others use too is asked whole, or its score could not be compared.
    whole = {"test"} if task.test is not None else set()
    encoded = {
        name: _encode(part, source, target, None if name in whole else task.most_tokens)
        for name, part in parts.items()
    }
    count = sum(map(len, parts.values()))
    for name, part in encoded.items():
        if not part.pairs:
            raise UserError(
                f"no pair is left for the part {name!r}: give more than {count} pairs, a "
                f"larger held_out than {task.held_out} or a larger most_tokens than "
                f"{task.most_tokens}"
            )
    return _Corpus(source, target, encoded, overlap)


def _parts(task: Translation) -> tuple[dict[Part, list[Pair]], int]:
    """The pairs of every part, and how many were left out because a part held out has them too."""
    if task.corpus is None:
        return split_pairs(grammar.sentences(task.sentences, task.clauses), task.held_out), 0
    files: dict[Part, str | None] = {"test": task.test, "valid": task.valid}
    given = {part: read_pairs(path, task.columns) for part, path in files.items() if path}
    pairs = read_pairs(task.corpus, task.columns)
    parts = split_pairs(pairs, task.held_out, tuple(given)) | given
    count = sum(map(len, parts.values()))
    # The test keeps all of its sentences, validation those that the test has not.
    held: set[str] = set()
    for part in ("test", "valid", "train"):
        parts[part] = [pair for pair in parts[part] if _bare(pair.source) not in held]
        held |= {_bare(pair.source) for pair in parts[part]}
    overlap = count - sum(map(len, parts.values()))
    if overlap:
        log.warning(
            "%d pairs are left out: their source is in %s too",
            overlap,
            " or ".join(path for path in (task.valid, task.test) if path is not None),
        )
    return parts, overlap


def split_pairs(
    pairs: Sequence[Pair], held_out: float, given: Collection[Part] = ()
) -> dict[Part, list[Pair]]:
    """Part pairs by their source sentence, which alone decides; "Go!" and "go" are one sentence.

    For parts in ``given`` nothing is taken from the pairs: it stays in training.
    """
    parts: dict[Part, list[Pair]] = {"train": [], "valid": [], "test": []}
    for pair in pairs:
        drawn = derive(0, "held out", _bare(pair.source)) / 2**63
        part: Part = "test" if drawn < held_out else "valid" if drawn < 2 * held_out else "train"
        parts["train" if part in given else part].append(pair)
    return parts


def _bare(source: str) -> str:
    """A sentence without case and punctuation; one that is nothing else stays as it is."""
    return "".join(letter for letter in source.casefold() if letter.isalnum()) or source


def _encode(pairs: list[Pair], source: Merges, target: Merges, most: int | None) -> _Encoded:
    sources = encode(source, [pair.source for pair in pairs])
    targets = encode(target, [pair.target for pair in pairs])
    if most is None:
        return _Encoded(pairs, sources, targets)
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
    seed = derive(seed, "data", split, epoch)
    return drawn(_cuts(task, split, size), _lengths(task, split), seed)


def drawn(cuts: list[slice], lengths: Sequence[Ints], seed: int) -> list[Ints]:
    """The rows of every batch of one pass; who is with whom, and when, the seed decides."""
    rng = np.random.default_rng(seed)
    order = np.lexsort((rng.random(len(lengths[0])), *lengths))
    return [order[cuts[place]] for place in rng.permutation(len(cuts))]


def _fill(rows: Sequence[Ints], blank: int) -> Ints:
    filled = np.full((len(rows), max(map(len, rows))), blank, dtype=np.int64)
    for line, row in zip(filled, rows, strict=True):
        line[: len(row)] = row
    return filled
