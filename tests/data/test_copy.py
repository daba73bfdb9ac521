from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemoscope.core.errors import UserError
from mnemoscope.data.batch import NO_QUESTION, Batch, Task
from mnemoscope.data.copy import Copy


def test_the_drawn_example_of_copy(
    drawing: Callable[[type[Task]], list[str]], as_drawn: Callable[[Batch], list[str]]
) -> None:
    assert as_drawn(Copy(symbols=8, items=2, lag=4).batch(0, 1, seed=0)) == drawing(Copy)


@given(
    symbols=st.integers(2, 9), items=st.integers(1, 6), lag=st.integers(0, 30), seed=st.integers(0)
)
def test_answers_are_what_stood_an_age_ago(symbols: int, items: int, lag: int, seed: int) -> None:
    task = Copy(symbols=symbols, items=items, lag=lag)
    batch = task.batch(0, 3, seed=seed)
    assert batch.tokens.shape == (3, task.longest)
    rows, columns = np.nonzero(batch.targets != NO_QUESTION)
    assert len(rows) == 3 * items
    assert (batch.tokens[rows, columns] == task.vocab - 1).all()
    assert (batch.ages[rows, columns] == lag + items).all()
    answers = batch.tokens[rows, columns - batch.ages[rows, columns]]
    assert (answers == batch.targets[rows, columns]).all()
    assert (batch.tokens[:, items : items + lag] == symbols).all()


def test_symbols_are_uniform() -> None:
    shown = Copy(symbols=4).batch(0, 8000, seed=0).tokens[:, 0]
    counts = np.bincount(shown, minlength=4)
    # Five standard deviations of a binomial count with n = 8000, p = 1/4.
    assert np.abs(counts - 2000).max() < 5 * np.sqrt(8000 * 0.25 * 0.75)


def test_lags_are_uniform_in_log_space() -> None:
    task = Copy(lag=63, shortest=1)
    lags = Counter(task.batch(step, 1, seed=0).tokens.shape[1] - 2 for step in range(3000))
    assert min(lags) == 1
    assert max(lags) == 63
    # [1, 64) in log space is six octaves of equal probability.
    octaves = [sum(lags[lag] for lag in range(2**k, 2 ** (k + 1))) for k in range(6)]
    assert max(abs(count - 500) for count in octaves) < 5 * np.sqrt(3000 / 6 * 5 / 6)


def test_a_range_of_one_lag_is_that_lag() -> None:
    task = Copy(lag=7, shortest=7)
    assert {task.batch(step, 1, seed=0).tokens.shape[1] for step in range(50)} == {9}


def test_at_fixes_the_lag_and_keeps_the_rest() -> None:
    fixed = Copy(symbols=5, items=3, lag=100, shortest=4).at(20)
    assert fixed == Copy(symbols=5, items=3, lag=20)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"symbols": 1}, "symbols"),
        ({"items": 0}, "items"),
        ({"lag": -1}, "lag"),
        ({"shortest": 0}, "shortest"),
        ({"lag": 4, "shortest": 5}, "shortest=5 is above lag=4; lower shortest or raise lag"),
        ({"lags": 4}, "did you mean 'lag'"),
    ],
)
def test_mistakes_in_copy_are_explained(values: dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Copy.make(**values)


def test_at_refuses_an_impossible_lag() -> None:
    with pytest.raises(UserError, match="lag"):
        Copy().at(-1)
