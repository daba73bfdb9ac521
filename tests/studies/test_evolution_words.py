"""What the study `evolution` counts, and which class it takes words for."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, product

import numpy as np
import pytest

from mnemoscope.data.batch import NO_QUESTION, Batch
from mnemoscope.data.masking import ANOTHER, HIDDEN
from mnemoscope.studies.evolution.parts_of_speech import CLASSES, part_of_speech, tags_of
from mnemoscope.studies.evolution.trivial import BEFOREHAND, neighbours_loss, trigram_loss

VOCAB = 7  # words 0 to 4, their end 5, the mask 6
END, MASK = 5, 6


def sentences(count: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [np.append(rng.integers(5, size=rng.integers(1, 6)), END) for _ in range(count)]


def test_trigrams_are_counted_as_a_plain_loop_would() -> None:
    learnt = sentences(30, 0)
    triples: Counter[tuple[int, ...]] = Counter()
    pairs: Counter[tuple[int, ...]] = Counter()
    befores: Counter[tuple[int, ...]] = Counter()
    lasts: Counter[int] = Counter()
    words: Counter[int] = Counter()
    for line in learnt:
        for at in range(1, len(line)):
            before = int(line[at - 2]) if at > 1 else -1
            last, word = int(line[at - 1]), int(line[at])
            triples[before, last, word] += 1
            befores[before, last] += 1
            pairs[last, word] += 1
            lasts[last] += 1
            words[word] += 1
    asked = [one for one in sentences(20, 1) if len(one) == 4]
    tokens = np.stack(asked)
    targets = np.full_like(tokens, NO_QUESTION)
    targets[:, :-1] = tokens[:, 1:]
    losses = {}
    for two, three in product(BEFOREHAND, repeat=2):
        nats = []
        for row in asked:
            for at in range(1, len(row)):
                before, last, word = (int(row[at - 2]) if at > 1 else -1), int(row[at - 1]), row[at]
                single = (words[int(word)] + 1) / (sum(words.values()) + VOCAB)
                double = (pairs[last, int(word)] + two * single) / (lasts[last] + two)
                seen = triples[before, last, int(word)] + three * double
                nats.append(-np.log(seen / (befores[before, last] + three)))
        losses[two, three] = np.mean(nats)
    batch = Batch.episodes(tokens, targets)
    assert trigram_loss(learnt, [batch], VOCAB) == pytest.approx(min(losses.values()))


def test_a_word_between_two_others_is_weighed_as_a_plain_loop_would() -> None:
    learnt = sentences(40, 2)
    tokens = np.array([[1, MASK, 2, END], [MASK, MASK, 3, END], [0, 4, 1, END]])
    targets = np.array([[-100, 3, -100, -100], [2, -100, -100, -100], [-100, 4, 0, -100]])
    words: Counter[int] = Counter(int(word) for line in learnt for word in line)
    total = sum(words.values()) + VOCAB
    pairs: Counter[tuple[int, int]] = Counter()
    for line in learnt:
        pairs.update((int(a), int(b)) for a, b in pairwise(line))
    first = Counter(a for a, _ in pairs.elements())

    def chance(a: int, b: int, k: float) -> float:
        return (pairs[a, b] + k * (words[b] + 1) / total) / (first[a] + k)

    losses = []
    for k in BEFOREHAND:
        nats = []
        for row, column in zip(*np.nonzero(targets != NO_QUESTION), strict=True):
            left = int(tokens[row, column - 1]) if column else MASK
            right, read = int(tokens[row, column + 1]), int(tokens[row, column])
            scores = []
            for word in range(VOCAB):
                score = (words[word] + 1) / total if left == MASK else chance(left, word, k)
                scores.append(score if right == MASK else score * chance(word, right, k))
            said = scores[targets[row, column]] / sum(scores)
            if read != MASK:
                kept = (1 - HIDDEN - ANOTHER) / (1 - HIDDEN)
                said = kept * (read == targets[row, column]) + (1 - kept) * said
            nats.append(-np.log(said))
        losses.append(np.mean(nats))
    batch = Batch.episodes(tokens, targets)
    assert neighbours_loss(learnt, [batch], VOCAB) == pytest.approx(min(losses))


@pytest.mark.parametrize(
    ("pieces", "tags"),
    [
        (
            [" The", " walk", "ing", " dog", " isn", "'t", " mine", ".", ""],
            ["determiner", *["open class"] * 3, *["auxiliary"] * 2, "pronoun", "punctuation", ""],
        ),
        ([" At", " 2", ":", "30"], ["preposition", "number", "punctuation", "number"]),
        ([" He", "'", "s", " out", "!"], ["pronoun", *["auxiliary"] * 2, "preposition",
                                          "punctuation"]),
    ],
)  # fmt: skip
def test_pieces_of_a_word_have_the_class_of_the_word(pieces: list[str], tags: list[str]) -> None:
    assert tags_of(range(len(pieces)), pieces.__getitem__) == tags
    assert set(tags) - {""} <= set(CLASSES)


def test_a_word_is_of_one_class() -> None:
    assert part_of_speech(" And") == "conjunction"
    assert part_of_speech("seventeen") == "number"
    assert part_of_speech("…") == "punctuation"
    assert part_of_speech("Boston") == "open class"
    assert part_of_speech(" ") == ""
