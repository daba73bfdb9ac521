"""What counting words gives on the held-out batches of a run: the least that a model must beat.

Everything is counted on what the run has learnt from. A count falls back on the next shorter
context, as if it had seen so many words of that beforehand as serve it best. Shapes: n answers,
V tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import numpy as np

from mnemoscope.core.arrays import Floats, Ints
from mnemoscope.data.batch import NO_QUESTION, Batch, Stream
from mnemoscope.data.masking import ANOTHER, HIDDEN
from mnemoscope.data.sentences import Sentences
from mnemoscope.training.config import RunConfig

# Batches that are counted at most, and how many words a shorter context counts for beforehand.
MOST_BATCHES, BEFOREHAND = 4000, (1.0, 10.0, 100.0)


def trivial_losses(config: RunConfig) -> dict[str, float]:
    """Nats per answer of predictors that count words, by name.

    unigram      how frequent a word is
    bigram       beside that the token that is read where the answer is asked for: of a language
                 model and of the target of a translator the word before
    trigram      of a language model: the two words before
    neighbours   of a masked language model: what bigrams make of the word to the left and the one
                 to the right, and of the token that is read
    """
    settings, vocab = config.training, config.task.vocab
    learnt = Stream(config.task, settings.batch, settings.seed)
    x, y = _answers(islice(learnt, min(settings.steps, MOST_BATCHES)))
    batches = list(islice(_held_out(config), settings.evaluate_batches))
    read, asked = _answers(iter(batches))
    counts = np.bincount(y, minlength=vocab) + 1.0
    single: Floats = counts / counts.sum()
    pairs = Counted.of([x], y, vocab)
    double = [_nats(pairs(one, [read], asked, single[asked])) for one in BEFOREHAND]
    found = {"unigram": _nats(single[asked]), "bigram": min(double)}
    if isinstance(config.task, Sentences):
        sentences = config.task.encoded("train")
        if config.task.objective == "next":
            found["trigram"] = trigram_loss(sentences, batches, vocab)
        else:
            found["neighbours"] = neighbours_loss(sentences, batches, vocab)
    return found


def _held_out(config: RunConfig) -> Stream:
    return Stream(config.task, config.held_out_rows, config.training.seed, "valid")


def _nats(chances: Floats) -> float:
    return float(-np.log(chances).mean())


@dataclass(frozen=True, eq=False)
class Counted:
    """How often a word followed a context, and how often the context occurred.

    keys, times   contexts with their word, sorted, and counts
    whole, sizes  contexts alone, sorted, and counts
    vocab         how many tokens there are, and one that stands for none
    """

    keys: Ints
    times: Ints
    whole: Ints
    sizes: Ints
    vocab: int

    @classmethod
    def of(cls, contexts: Sequence[Ints], words: Ints, vocab: int) -> Counted:
        """Count words (n,) by their contexts, a few tokens (n,) each; −1 where there is none."""
        context = _joined(contexts, vocab)
        keys, times = np.unique(_joined([context, words], vocab), return_counts=True)
        whole, sizes = np.unique(context, return_counts=True)
        return cls(keys, times, whole, sizes, vocab)

    def __call__(
        self, beforehand: float, contexts: Sequence[Ints], words: Ints, shorter: Floats
    ) -> Floats:
        """Chances (n,) of words, with so many beforehand of what a ``shorter`` context says."""
        context = _joined(contexts, self.vocab)
        seen = _looked_up(self.keys, self.times, _joined([context, words], self.vocab))
        rows = _looked_up(self.whole, self.sizes, context)
        chances: Floats = (seen + beforehand * shorter) / (rows + beforehand)
        return chances


def _joined(parts: Sequence[Ints], vocab: int) -> Ints:
    """One number for a few tokens; the first may be such a number itself."""
    found = parts[0] + 1
    for one in parts[1:]:
        found = found * (vocab + 1) + one + 1
    return found


def _looked_up(keys: Ints, values: Ints, wanted: Ints) -> Ints:
    at = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    return np.where(keys[at] == wanted, values[at], 0)


def trigram_loss(sentences: Sequence[Ints], batches: Sequence[Batch], vocab: int) -> float:
    """Nats of trigrams over bigrams over unigrams, counted on sentences, for the next words."""
    before, last, word = _in_threes(sentences)
    counts = np.bincount(word, minlength=vocab) + 1.0
    single = counts / counts.sum()
    double, triple = Counted.of([last], word, vocab), Counted.of([before, last], word, vocab)
    rows = [one.tokens[:, :-1] for one in batches]
    last = np.concatenate([one.ravel() for one in rows])
    before = np.concatenate([np.insert(one, 0, -1, axis=1)[:, :-1].ravel() for one in rows])
    word = np.concatenate([one.tokens[:, 1:].ravel() for one in batches])
    tried = (
        triple(three, [before, last], word, double(two, [last], word, single[word]))
        for two, three in product(BEFOREHAND, repeat=2)
    )
    return min(map(_nats, tried))


def _in_threes(sentences: Sequence[Ints]) -> tuple[Ints, Ints, Ints]:
    """Every word but the first, the word before it, and the one before that, −1 for none."""
    word = np.concatenate([one[1:] for one in sentences])
    last = np.concatenate([one[:-1] for one in sentences])
    before = np.concatenate([np.append(-1, one[:-2]) for one in sentences])
    return before, last, word


def neighbours_loss(sentences: Sequence[Ints], batches: Sequence[Batch], vocab: int) -> float:
    """Nats of what bigrams know of a word between two others: p(w | left) · p(right | w).

    Divided by its sum over all words. A neighbour that is hidden, or none, says nothing. Where
    the word itself is not hidden, it is the one that is read as often as the recipe of masking
    keeps it.
    """
    mask = vocab - 1
    hidden, (left, read, right, asked) = _between(batches, mask)
    counts = np.bincount(np.concatenate(sentences), minlength=vocab) + 1.0
    single = counts / counts.sum()
    first = np.concatenate([one[:-1] for one in sentences])
    second = np.concatenate([one[1:] for one in sentences])
    after, ahead = _Rows.of(first, second, vocab), _Rows.of(second, first, vocab)
    times = np.bincount(first, minlength=vocab)
    kept = (1 - HIDDEN - ANOTHER) / (1 - HIDDEN)

    def nats(beforehand: float) -> float:
        chances = np.empty(len(asked))
        for at, (one, other, word) in enumerate(zip(left, right, asked, strict=True)):
            score = single.copy()
            if one >= 0:
                known = after(one)
                score = (known + beforehand * single) / (known.sum() + beforehand)
            if other >= 0:
                score *= (ahead(other) + beforehand * single[other]) / (times + beforehand)
            chances[at] = score[word] / score.sum()
        seen = kept * (read == asked) + (1 - kept) * chances
        return _nats(np.where(hidden, chances, seen))

    return min(map(nats, BEFOREHAND))


def _between(batches: Sequence[Batch], mask: int) -> tuple[Any, tuple[Ints, Ints, Ints, Ints]]:
    """Whether words asked for are hidden; left of them, in their stead, right of them, and they."""

    def flat(of: Callable[[Batch], Ints]) -> Ints:
        return np.concatenate([of(one)[one.targets != NO_QUESTION] for one in batches])

    def beside(one: Batch, shift: int) -> Ints:
        rolled = np.roll(one.tokens, shift, axis=1)
        rolled[:, 0 if shift > 0 else -1] = -1
        return np.where(rolled == mask, -1, rolled)

    read = flat(lambda one: one.tokens)
    left, right = flat(lambda one: beside(one, 1)), flat(lambda one: beside(one, -1))
    return read == mask, (left, read, right, flat(lambda one: one.targets))


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of a matrix of counts (V, V) that is mostly nought."""

    columns: Ints
    times: Ints
    ends: Ints
    vocab: int

    @classmethod
    def of(cls, rows: Ints, columns: Ints, vocab: int) -> _Rows:
        cells, times = np.unique(rows * vocab + columns, return_counts=True)
        ends = np.searchsorted(cells // vocab, np.arange(vocab + 1))
        return cls(cells % vocab, times, ends, vocab)

    def __call__(self, row: int) -> Floats:
        found, here = np.zeros(self.vocab), slice(self.ends[row], self.ends[row + 1])
        found[self.columns[here]] = self.times[here]
        return found


def _answers(batches: Iterator[Batch]) -> tuple[Ints, Ints]:
    """What is read where something is asked, and what is asked there, (n,) each."""
    read, asked = [], []
    for one in batches:
        here = one.targets != NO_QUESTION
        read.append(one.tokens[here])
        asked.append(one.targets[here])
    return np.concatenate(read), np.concatenate(asked)
