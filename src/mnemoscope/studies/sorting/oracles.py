"""What no model is needed for: guessing, and exact counting of the last tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mnemoscope.data.sorting import Sorting

# The test streams: held out, and of another seed than those that training is evaluated on.
TEST_SEED = 2


def chance(symbols: int) -> float:
    """Accuracy of guessing among the symbols not named yet: (1 + ½ + … + 1/V) / V."""
    return sum(1 / left for left in range(1, symbols + 1)) / symbols


def in_sight(task: Sorting, mem_len: int, segment: int) -> list[int]:
    """How many of the last tokens of the stream attention over a cache takes in, answer by answer.

    A segment attends to itself and to the ``mem_len`` tokens before it. A stream that ends with a
    segment leaves the cache alone, one that ends inside a segment the beginning of that as well.
    """
    begins = [(task.length + answer) // segment * segment for answer in range(task.symbols)]
    return [min(task.length, max(0, task.length - begin + mem_len)) for begin in begins]


def counting_oracle(task: Sorting, tokens: Sequence[int], episodes: int) -> float:
    """Teacher-forced accuracy of one who counts the last ``tokens`` exactly, for every answer.

    It knows which symbols were named already and names the most frequent of the others; of equals
    the one with the lower id, since counts do not tell which was seen first.
    """
    batch = task.batch(0, episodes, seed=TEST_SEED, split="valid")
    shown, answer = batch.tokens[:, : task.length], batch.targets[:, task.length :]
    right = 0
    for row in range(episodes):
        named: list[int] = []
        for count, correct in zip(tokens, answer[row], strict=True):
            last = shown[row, task.length - count :]
            counts = np.bincount(last, minlength=task.symbols)
            counts[named] = -1
            right += int(counts.argmax() == correct)
            named.append(correct)
    return right / answer.size
