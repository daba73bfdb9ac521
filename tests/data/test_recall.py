from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemoscope.core.errors import UserError
from mnemoscope.data.batch import NO_QUESTION, Batch, Task
from mnemoscope.data.recall import Recall


def test_the_drawn_example_of_recall(
    drawing: Callable[[type[Task]], list[str]], as_drawn: Callable[[Batch], list[str]]
) -> None:
    task = Recall(keys=3, values=4, pairs=2, queries=2, length=10, overwrites=1)
    assert as_drawn(task.batch(0, 1, seed=5)) == drawing(Recall)


@st.composite
def tasks(draw: st.DrawFn) -> Recall:
    pairs = draw(st.integers(1, 6))
    overwrites = draw(st.integers(0, pairs))
    written = 2 * (pairs + overwrites)
    shape: dict[str, Any] = {
        "keys": draw(st.integers(pairs, pairs + 4)),
        "values": draw(st.integers(2, 6)),
        "pairs": pairs,
        "overwrites": overwrites,
    }
    if draw(st.booleans()):
        queries = draw(st.integers(1, 9))
        length = written + queries + draw(st.integers(0, 9))
        return Recall(**shape, queries=queries, length=length)
    # Ages that fit every pair, in as many queries as there are pairs, are always possible.
    queries = draw(st.integers(1, pairs))
    ages = draw(
        st.lists(st.integers(written - 1, written + 20), min_size=1, max_size=queries).map(tuple)
    )
    return Recall(**shape, queries=queries, ages=ages, length=max(ages) + written)


def check(task: Recall, batch: Batch) -> None:
    """Read every row like a person would: keep a table, answer from it."""
    written = 2 * (task.pairs + task.overwrites)
    for tokens, targets, ages in zip(batch.tokens, batch.targets, batch.ages, strict=True):
        table: dict[int, tuple[int, int]] = {}
        history: dict[int, list[int]] = {}
        for at in range(0, written, 2):
            key, value = int(tokens[at]), int(tokens[at + 1])
            assert key < task.keys <= value < task.keys + task.values
            table[key] = (value, at + 1)
            history.setdefault(key, []).append(value)
        assert len(table) == task.pairs
        assert sum(len(values) == 2 for values in history.values()) == task.overwrites
        assert all(len(set(values)) == len(values) for values in history.values())
        assert (targets[:written] == NO_QUESTION).all()
        asked = np.flatnonzero(targets != NO_QUESTION)
        assert len(asked) == task.queries
        for at in asked.tolist():
            value, stored_at = table[int(tokens[at])]
            assert targets[at] == value
            assert ages[at] == at - stored_at
        silent = np.setdiff1d(np.arange(written, task.length), asked)
        assert (tokens[silent] == task.vocab - 1).all()
        if task.ages is not None:
            turns = [task.ages[i % len(task.ages)] for i in range(task.queries)]
            assert sorted(ages[asked].tolist()) == sorted(turns)


@given(task=tasks(), seed=st.integers(0, 10**9))
def test_the_answer_is_the_value_last_stored(task: Recall, seed: int) -> None:
    check(task, task.batch(0, 4, seed=seed))


@given(
    pairs=st.integers(1, 4),
    twice=st.integers(0, 2),
    queries=st.integers(1, 6),
    length=st.integers(3, 40),
    ages=st.lists(st.integers(1, 30), min_size=1, max_size=4).map(tuple),
    seed=st.integers(0, 10**6),
)
def test_what_the_validator_lets_through_always_works(
    pairs: int, twice: int, queries: int, length: int, ages: tuple[int, ...], seed: int
) -> None:
    try:
        task = Recall(
            pairs=pairs, overwrites=twice, queries=queries, length=length, ages=ages, values=3
        )
    except ValueError:
        return
    check(task, task.batch(0, 16, seed=seed))


def test_every_pair_is_asked_once_when_there_are_as_many_queries() -> None:
    task = Recall(pairs=5, queries=5, length=20)
    batch = task.batch(0, 50, seed=0)
    for tokens, targets in zip(batch.tokens, batch.targets, strict=True):
        assert set(tokens[targets != NO_QUESTION]) == set(tokens[:10:2])


def test_queries_without_ages_are_uniform_over_the_free_positions() -> None:
    task = Recall(pairs=2, queries=2, length=12)
    asked = (task.batch(0, 4000, seed=0).targets != NO_QUESTION).sum(axis=0)[4:]
    # Each of 8 positions holds one of 2 queries: p = 1/4; five standard deviations.
    assert np.abs(asked - 1000).max() < 5 * np.sqrt(4000 * 0.25 * 0.75)


def test_one_pair_can_be_asked_at_many_ages() -> None:
    task = Recall(pairs=1, queries=3, length=70, ages=(4, 16, 64))
    check(task, task.batch(0, 8, seed=0))


def test_an_age_of_one_asks_for_what_was_just_read() -> None:
    task = Recall(pairs=4, queries=1, length=9, ages=(1,))
    batch = task.batch(0, 8, seed=0)
    assert (batch.targets[:, 8] == batch.tokens[:, 7]).all()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"keys": 3, "pairs": 4}, "keys=3 is too few for pairs=4 .* raise keys or lower pairs"),
        ({"values": 1}, "values"),
        ({"pairs": 2, "overwrites": 3}, "overwrites=3 is more than pairs=2"),
        ({"pairs": 4, "queries": 4, "length": 11}, "length=11 is too short .* at least 12"),
        ({"pairs": 4, "overwrites": 1, "length": 13}, "make it at least 14"),
        ({"ages": ()}, "at least one age"),
        ({"ages": (0,)}, "each 1 or more"),
        ({"ages": (9, 10, 11, 12, 13)}, "queries=4 leaves some of the 5 ages unasked"),
        ({"ages": (31,)}, "at age 31 .* raise length"),
        # Each pair stands at this age in one place only: four pairs, five queries.
        ({"ages": (10,), "queries": 5}, "no room for 5 queries at age 10"),
        ({"ages": (1,), "queries": 2}, "age of 7 or more"),
        ({"queries": 0}, "queries"),
        ({"ages": "soon"}, "ages"),
    ],
)
def test_impossible_combinations_say_what_to_change(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Recall.make(**values)


def test_joined_writes_are_one_token_and_say_the_same() -> None:
    task = Recall(keys=5, values=4, pairs=4, queries=4, length=20, overwrites=3, joined=True)
    assert task.vocab == 5 + 4 + 1 + 20
    assert task.written == 7
    batch = task.batch(0, 50, seed=1)
    for tokens, targets, ages in zip(batch.tokens, batch.targets, batch.ages, strict=True):
        held: dict[int, tuple[int, int]] = {}
        for place, token in enumerate(tokens.tolist()):
            if token >= 10:
                assert place < task.written
                held[(token - 10) // 4] = (token - 10) % 4, place
            elif targets[place] != NO_QUESTION:
                value, stored = held[token]
                assert targets[place] == 5 + value
                assert targets[place] in task.answers
                assert ages[place] == place - stored


@given(st.integers(1, 5), st.integers(1, 40))
def test_joined_writes_can_be_asked_at_any_age(pairs: int, age: int) -> None:
    task = Recall.make(
        keys=5, values=4, pairs=pairs, queries=1, ages=(age,), length=max(3, pairs + age),
        joined=True,
    )  # fmt: skip
    batch = task.batch(0, 6, seed=age)
    assert set(batch.ages[batch.ages > 0].tolist()) == {age}


def test_the_number_of_pairs_and_overwrites_can_vary_from_batch_to_batch() -> None:
    task = Recall.make(
        keys=6, values=4, pairs=6, queries=6, overwrites=2, length=20, joined=True, fewest=2
    )
    seen = set()
    for step in range(80):
        tokens = task.batch(step, 3, seed=0).tokens
        written = (tokens > 10).sum(1)
        keys = {len(set(((row[row > 10] - 11) // 4).tolist())) for row in tokens}
        assert len(set(written.tolist())) == len(keys) == 1
        (pairs,) = keys
        seen.add((pairs, int(written[0]) - pairs))
    assert seen == {(pairs, twice) for pairs in range(2, 7) for twice in range(3)}
    with pytest.raises(UserError, match="fewest=7 must be at most pairs=6"):
        Recall.make(keys=6, pairs=6, fewest=7)
