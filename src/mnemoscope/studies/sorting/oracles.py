"""What no model is needed for: guessing, and exact counting of the last tokens."""

from __future__ import annotations

import numpy as np

from mnemoscope.data.sorting import Sorting

# The test streams: held out, and of another seed than those that training is evaluated on.
TEST_SEED = 2


def chance(symbols: int) -> float:
    """Accuracy of guessing among the symbols not named yet: (1 + ½ + … + 1/V) / V."""
    return sum(1 / left for left in range(1, symbols + 1)) / symbols


def counting_oracle(task: Sorting, tokens: int, episodes: int) -> float:
    """Teacher-forced accuracy of one who counts the last ``tokens`` tokens exactly.

    It knows which symbols were named already and names the most frequent of the others; of equals
    the one with the lower id, since counts do not tell which was seen first.
    """
    batch = task.batch(0, episodes, seed=TEST_SEED, split="valid")
    shown, answer = batch.tokens[:, : task.length], batch.targets[:, task.length :]
    right = 0
    for row in range(episodes):
        counts = np.bincount(shown[row, -tokens:], minlength=task.symbols).astype(float)
        for correct in answer[row]:
            right += int(counts.argmax() == correct)
            counts[correct] = -1
    return right / answer.size
