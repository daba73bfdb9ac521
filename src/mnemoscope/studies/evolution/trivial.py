"""What counting words gives on the held-out batches of a run: the least that a model must beat."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from mnemoscope.core.arrays import Floats, Ints
from mnemoscope.data.batch import NO_QUESTION, Batch, Stream
from mnemoscope.training.config import RunConfig

# Batches that are counted at most, and how many words a row of bigrams is worth beforehand.
MOST_BATCHES, BEFOREHAND = 500, (1.0, 10.0, 100.0)


def trivial_losses(config: RunConfig) -> dict[str, float]:
    """Nats per answer of unigrams and bigrams, counted on what the run has learnt from.

    A bigram knows the token that is read where the answer is asked for: of a language model and of
    the target of a translator the word before. It falls back on unigrams, as if it had seen
    so many of them beforehand as serve it best.
    """
    settings, vocab = config.training, config.task.vocab
    learnt = Stream(config.task, settings.batch, settings.seed)
    x, y = _answers(islice(learnt, min(settings.steps, MOST_BATCHES)))
    held_out = Stream(config.task, config.held_out_rows, settings.seed, "valid")
    read, asked = _answers(islice(held_out, settings.evaluate_batches))
    counts = np.bincount(y, minlength=vocab) + 1.0
    single: Floats = counts / counts.sum()
    pairs, times = np.unique(x * vocab + y, return_counts=True)
    wanted = read * vocab + asked
    at = np.searchsorted(pairs, wanted).clip(max=len(pairs) - 1)
    seen = np.where(pairs[at] == wanted, times[at], 0)
    rows = np.bincount(x, minlength=vocab)[read]
    double = [(seen + k * single[asked]) / (rows + k) for k in BEFOREHAND]
    return {
        "unigram": float(-np.log(single[asked]).mean()),
        "bigram": min(float(-np.log(one).mean()) for one in double),
    }


def _answers(batches: Iterator[Batch]) -> tuple[Ints, Ints]:
    """What is read where something is asked, and what is asked there, (n,) each."""
    read, asked = [], []
    for one in batches:
        here = one.targets != NO_QUESTION
        read.append(one.tokens[here])
        asked.append(one.targets[here])
    return np.concatenate(read), np.concatenate(asked)
