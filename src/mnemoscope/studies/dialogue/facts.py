"""What is known of conversations without any model: how often words are said, what was said."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.data.batch import NO_QUESTION
from mnemoscope.data.dialogue.script import TURNS, Written
from mnemoscope.data.dialogue.task import Dialogue as Task
from mnemoscope.studies.dialogue.result import ShownConversation

# Batches on which the trivial predictor counts how often words are said.
COUNTED = 64


def unigram(task: Task, written: Sequence[Written]) -> float:
    """Loss per token of who knows how often each token is said, counted in training."""
    counts: Floats = np.ones(task.vocab)
    for step in range(COUNTED):
        targets = task.batch(step, 16, seed=0).targets
        counts += np.bincount(targets[targets != NO_QUESTION], minlength=len(counts))
    cost = -np.log(counts / counts.sum())
    return float(np.concatenate([cost[one.ids[one.reply]] for one in written]).mean())


def shown_conversation(
    text_of: Callable[[Sequence[int]], str],
    sections: tuple[str, ...],
    speakers: tuple[str, ...],
    read: Written,
) -> ShownConversation:
    """A conversation to read on the page, token by token."""
    turns = read.part == TURNS
    text = turns & ~read.mark
    by_turn = dict(zip(read.turn[turns].tolist(), read.speaker[turns].tolist(), strict=True))
    return ShownConversation(
        read.name,
        sections,
        tuple(speakers[by_turn[turn]] for turn in sorted(by_turn)),
        tuple(text_of([token]) for token in read.ids[text].tolist()),
        tuple(read.turn[text].tolist()),
        tuple(read.reply[text].tolist()),
    )
