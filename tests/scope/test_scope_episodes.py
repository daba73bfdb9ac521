"""Episodes in words: what they ask and when its answer was read is what the task itself says."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import find
from mnemoscope.data.batch import NO_QUESTION, Task
from mnemoscope.data.vocabulary import Alphabet, Merges
from mnemoscope.scope.episodes import HIDDEN, words_of
from mnemoscope.scope.token_text import in_words, masked, numbers

TASKS: dict[str, dict[str, Any]] = {
    "recall": {"keys": 5, "values": 4, "pairs": 3, "queries": 4, "length": 18},
    "recall overwritten": {"pairs": 3, "overwrites": 2, "queries": 5, "length": 30},
    "recall joined": {"keys": 5, "values": 4, "pairs": 3, "length": 12, "joined": True},
    "copy": {"symbols": 5, "items": 3, "lag": 6},
    "copy noisy": {"symbols": 5, "items": 2, "lag": 6, "fillers": 3},
    "sorting": {"symbols": 6, "length": 20},
    "sorting numbers": {"symbols": 9, "length": 12, "variant": "numbers"},
    "spelling": {"most_words": 12},
    "dialogue": {"sections": 2, "facts": 2, "asked": 3},
    "dialogue joined": {"sections": 2, "facts": 2, "asked": 3, "joined": True, "filler": 1},
    "dialogue with small talk": {"sections": 2, "facts": 2, "small_talk": 3, "filler": 1},
}


def task_of(name: str) -> Task:
    task: Task = find("task", name.split()[0]).make(**TASKS[name])
    return task


@pytest.mark.parametrize("name", TASKS)
def test_an_episode_asks_what_its_task_asks(name: str) -> None:
    task = task_of(name)
    words = words_of(task)
    assert words is not None
    assert len(words.tokens) == task.vocab == len(set(words.tokens))
    assert len(words.answers) == (task.outputs or task.vocab)
    batch = task.batch(3, 16, seed=1, split="train")
    for tokens, targets, ages in zip(batch.tokens, batch.targets, batch.ages, strict=True):
        reading = in_words(words, " ".join(words.tokens[one] for one in tokens))
        assert reading.tokens == tokens.tolist()
        assert reading.targets == targets.tolist()
        # Phrases part the episode, each token in one of them.
        edges = [edge for phrase in reading.phrases for edge in (phrase.first, phrase.end)]
        assert [edges[0], *edges[2::2]] == [0, *edges[1:-1:2]]
        assert edges[-1] == len(tokens)
        for phrase in reading.phrases:
            asked = phrase.end - 1
            assert (phrase.kind == "ask") == (targets[asked] != NO_QUESTION)
            if phrase.kind == "ask" and ages[asked]:
                assert phrase.source == asked - ages[asked]


def test_recall_is_told_as_one_would_tell_it() -> None:
    words = words_of(task_of("recall"))
    assert words is not None
    reading = in_words(words, "k3 v2 k1 v0 . . k3 k4 k3 v1 k3 2")
    said = [(one.words, one.answer and words.answers[one.answer]) for one in reading.phrases]
    assert said == [
        ("write k3 = v2", None),
        ("write k1 = v0", None),
        ("wait 2 tokens", None),
        ("ask k3", "v2"),
        ("ask k4, never written", None),
        ("write k3 = v1", None),
        ("ask k3", "v1"),
        ("ask k2, never written", None),
    ]
    assert [one.source for one in reading.phrases if one.words == "ask k3"] == [1, 9]


def test_hidden_calls_and_answers_are_asked_for() -> None:
    task: Task = find("task", "delayed_answer").make(calls=4, length=12, back=2)
    words = words_of(task)
    assert words is not None
    hidden = words.tokens.index(HIDDEN)
    assert hidden == task.vocab - 1
    reading = in_words(words, "A B [a] b [C]", hidden)
    assert reading.tokens == [0, 1, hidden, 5, hidden]
    assert reading.targets == [NO_QUESTION, NO_QUESTION, 4, NO_QUESTION, 2]
    assert [one.words for one in reading.phrases if one.kind == "ask"] == [
        "hidden, 2 after A",
        "hidden",
    ]


def test_a_word_that_is_no_token_is_explained() -> None:
    words = words_of(task_of("copy"))
    assert words is not None
    with pytest.raises(UserError, match=r"'s9' is no token: write s0 s1 .* \?, or numbers"):
        in_words(words, "s1 s9")
    with pytest.raises(UserError, match="numbers from 0 to 3, separated"):
        in_words(numbers(4), "1 4")
    assert in_words(numbers(4), "1, 3").tokens == [1, 3]


def test_a_task_without_words_reads_numbers_and_text_has_none() -> None:
    text: Task = find("task", "characters").make()
    assert words_of(text) is None
    picture = words_of(find("task", "images").make())
    assert picture is not None
    assert picture.columns == 8
    assert picture.tokens[-1] == "start"


@pytest.mark.parametrize("kind", ["characters", "bpe"])
def test_words_in_brackets_are_hidden_and_the_rest_is_cut_as_without_them(kind: str) -> None:
    text = " the old king sees the small boat near the tree"
    known = Alphabet(text) if kind == "characters" else Merges.learn(text * 3, 280)
    plain = text.strip()
    hidden, end = known.size + 1, known.size
    reading = masked(known, plain.replace("small", "[small]"), hidden, end, str)
    whole = known.encode(f" {plain}").tolist()
    filled = [
        target if token == hidden else token
        for token, target in zip(reading.tokens, reading.targets, strict=True)
    ]
    assert filled == [*whole, end]
    asked = [target for target in reading.targets if target != NO_QUESTION]
    assert known.decode(np.array(asked)).strip() == "small"
    assert len(reading.phrases) == len(asked)
    assert re.fullmatch(r"hidden token \d+", reading.phrases[0].words)
