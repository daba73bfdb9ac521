"""Which words of the test are looked at one by one: their parts of speech, and those drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from mnemoscope.data.batch import NO_QUESTION
from mnemoscope.data.sentences import Sentences
from mnemoscope.lenses.occurrences.result import OccurrencesResult
from mnemoscope.lenses.statistics.groups import Groups, by_tags
from mnemoscope.studies.evolution.parts_of_speech import CLASSES, tags_of
from mnemoscope.studies.evolution.result import Drawn

# Drawn where the text has them, as in the paper; else the most frequent tokens are.
FORMS = ("is", "are", "was", "were")
OCCURRENCES = 240


def spelled(task: Sentences) -> dict[int, str]:
    """The text of every token; the end of a sentence and the mask stand for none."""
    found = {token: task.words.decode(np.array([token])) for token in range(task.words.size)}
    return found | {task.words.size: "", task.words.size + 1: ""}


def by_class(task: Sentences, batches: Sequence[Tensor]) -> tuple[Groups, list[Tensor]]:
    """Tokens grouped by part of speech, and the number of each token's class, (B, T) a batch."""
    text = spelled(task)
    tags = [[tags_of(row, text.__getitem__) for row in one.tolist()] for one in batches]
    number = {name: place for place, name in enumerate(CLASSES)} | {"": NO_QUESTION}
    labels = [torch.tensor([[number[tag] for tag in row] for row in rows]) for rows in tags]
    return by_tags([row for rows in tags for row in rows]), labels


def chosen(task: Sentences, batches: Sequence[Tensor]) -> dict[int, str]:
    """Tokens whose occurrences are drawn, by id."""
    text = spelled(task)
    kinds, counts = np.unique(
        np.concatenate([one.numpy().ravel() for one in batches]), return_counts=True
    )
    frequent = kinds[np.argsort(-counts, kind="stable")].tolist()
    words = {one: text[one].strip() for one in frequent if text[one].strip()}
    forms = {one: word for one, word in words.items() if word in FORMS and text[one][0] == " "}
    return forms if len(forms) == len(FORMS) else dict(list(words.items())[: len(FORMS)])


def drawn(found: OccurrencesResult) -> Drawn:
    """What the lens found, as data of this study."""
    rounded = np.round(found.coordinates, 3).tolist()
    return Drawn(
        found.words,
        tuple(found.positions.tolist()),
        tuple(tuple((x, y) for x, y in site) for site in rounded),
        tuple(found.explained.tolist()),
        found.even,
    )
