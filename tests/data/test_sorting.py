from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemoscope.core.errors import UserError
from mnemoscope.data.batch import NO_QUESTION, Batch, Task
from mnemoscope.data.sorting import Sorting, sort_by_frequency


def slowly(row: list[int], symbols: int) -> list[int]:
    """Counter keeps first-seen order and most_common is stable: the definition itself."""
    seen = [symbol for symbol, _ in Counter(row).most_common()]
    return seen + [symbol for symbol in range(symbols) if symbol not in seen]


def test_the_drawn_example_of_sorting(
    drawing: Callable[[type[Task]], list[str]], as_drawn: Callable[[Batch], list[str]]
) -> None:
    assert as_drawn(Sorting(symbols=4, length=8).batch(0, 1, seed=0)) == drawing(Sorting)


@given(data=st.data(), symbols=st.integers(1, 8), rows=st.integers(1, 4), length=st.integers(1, 30))
def test_sorting_by_frequency_is_what_counting_gives(
    data: st.DataObject, symbols: int, rows: int, length: int
) -> None:
    row = st.lists(st.integers(0, symbols - 1), min_size=length, max_size=length)
    tokens = data.draw(st.lists(row, min_size=rows, max_size=rows))
    expected = [slowly(row, symbols) for row in tokens]
    assert sort_by_frequency(np.array(tokens), symbols).tolist() == expected


def test_ties_go_by_first_seen_and_the_unseen_come_last() -> None:
    assert sort_by_frequency(np.array([[3, 1, 1, 3, 0]]), 6).tolist() == [[3, 1, 0, 2, 4, 5]]


def test_frequencies_of_a_sorting_episode() -> None:
    task = Sorting(symbols=6, length=40)
    batch = task.batch(0, 16, seed=0)
    assert batch.tokens.shape == (16, 46) == (16, task.longest)
    for tokens, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
        assert targets[:40] == [NO_QUESTION] * 40
        assert targets[40:] == slowly(tokens[:40], 6)
        assert tokens[40:] == [6, *targets[40:-1]]
    assert not batch.ages.any()


def test_numbers_of_a_sorting_episode() -> None:
    task = Sorting(variant="numbers", symbols=10, length=30)
    batch = task.batch(0, 16, seed=0)
    assert batch.tokens.shape == (16, 60) == (16, task.longest)
    for tokens, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
        assert targets[:30] == [NO_QUESTION] * 30
        assert targets[30:] == sorted(tokens[:30], reverse=True)
        assert tokens[30:] == [10, *targets[30:-1]]


def test_number_ages_point_at_each_number_once() -> None:
    batch = Sorting(variant="numbers", symbols=10, length=30).batch(0, 4, seed=0)
    origin = np.arange(30, 60) - batch.ages[:, 30:]
    assert (np.sort(origin, axis=1) == np.arange(30)).all()
    answer = batch.targets[:, 30:]
    assert (np.take_along_axis(batch.tokens, origin, axis=1) == answer).all()
    equal = answer[:, 1:] == answer[:, :-1]
    assert (np.diff(origin, axis=1)[equal] > 0).all()


def test_probabilities_drift_linearly_between_weights_of_one_to_nine() -> None:
    task = Sorting(symbols=3, length=40_000)
    shown = task.batch(0, 1, seed=0).tokens[0, :40_000]
    # The weights of the start and of the end are the first thing that a batch draws.
    start, end = task.generator(0, 0, "train").integers(1, 10, size=(2, 3))
    assert np.abs(start / start.sum() - end / end.sum()).max() > 0.1
    shares = np.stack([(shown.reshape(10, -1) == symbol).mean(axis=1) for symbol in range(3)], 1)
    middle = (np.arange(10)[:, None] + 0.5) / 10
    expected = (1 - middle) * start / start.sum() + middle * end / end.sum()
    # Five standard deviations of a share among 4000 draws, at most 0.5/sqrt(4000) each.
    assert np.abs(shares - expected).max() < 5 * 0.5 / np.sqrt(4000)


def test_weights_are_one_to_nine_and_differ_between_rows() -> None:
    # With one token, all of it from the start: the shares are weights over their sum.
    shown = Sorting(symbols=2, length=1).batch(0, 20_000, seed=0).tokens[:, 0]
    assert abs((shown == 0).mean() - 0.5) < 5 * 0.5 / np.sqrt(20_000)
    long = Sorting(symbols=2, length=4000).batch(0, 200, seed=0).tokens[:, :400]
    early = (long == 0).mean(axis=1)
    # The extreme shares are 1/10 and 9/10, moved by at most a tenth of the drift.
    assert 0.05 < early.min() < 0.25
    assert 0.75 < early.max() < 0.95


@pytest.mark.parametrize(
    ("values", "message"),
    [({"variant": "letters"}, "variant"), ({"symbols": 1}, "symbols"), ({"length": 0}, "length")],
)
def test_mistakes_in_sorting_are_explained(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Sorting.make(**values)


def test_a_curriculum_begins_with_shorter_streams_and_is_not_tested_on() -> None:
    task = Sorting(symbols=3, length=20, curriculum=(5, 9), curriculum_steps=2)
    lengths = [task.batch(step, 2, seed=0).tokens.shape[1] - 3 for step in range(6)]
    assert lengths == [5, 5, 9, 9, 20, 20]
    assert task.batch(0, 2, seed=0, split="valid").tokens.shape[1] == task.longest
    plain = Sorting(symbols=3, length=5).batch(1, 2, seed=0)
    assert np.array_equal(task.batch(1, 2, seed=0).tokens, plain.tokens)
    with pytest.raises(UserError, match="above length=4"):
        Sorting.make(length=4, curriculum="5")
