import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemoscope.training.config import Training
from mnemoscope.training.schedule import learning_rate

SCHEDULES = ["cosine", "inverse_sqrt", "constant"]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_rate_rises_linearly_to_its_highest(schedule: str) -> None:
    settings = Training.make(steps=100, warmup=4, lr=0.8, schedule=schedule)
    rates = [learning_rate(step, settings) for step in range(5)]
    assert rates == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.8])


def test_cosine_falls_to_a_tenth_at_the_last_step() -> None:
    settings = Training.make(steps=21, warmup=10, lr=2.0)
    assert learning_rate(10, settings) == 2.0
    assert learning_rate(15, settings) == pytest.approx(2.0 * 0.55)
    quarter = 0.1 + 0.9 * (1 + math.cos(math.pi / 5)) / 2
    assert learning_rate(12, settings) == pytest.approx(2.0 * quarter)
    assert learning_rate(20, settings) == pytest.approx(0.2)


def test_inverse_sqrt_halves_when_the_steps_quadruple() -> None:
    settings = Training.make(steps=1000, warmup=16, lr=1.0, schedule="inverse_sqrt")
    assert learning_rate(16, settings) == 1.0
    assert learning_rate(64, settings) == pytest.approx(0.5)
    assert learning_rate(400, settings) == pytest.approx(0.2)


def test_inverse_sqrt_without_warmup_begins_at_the_highest() -> None:
    settings = Training.make(steps=10, warmup=0, lr=1.0, schedule="inverse_sqrt")
    rates = [learning_rate(step, settings) for step in (0, 1, 4)]
    assert rates == pytest.approx([1.0, 1.0, 0.5])


def test_a_constant_schedule_stays() -> None:
    settings = Training.make(steps=10, warmup=0, lr=0.3, schedule="constant")
    assert {learning_rate(step, settings) for step in range(10)} == {0.3}


@given(
    st.sampled_from(SCHEDULES),
    st.integers(1, 300),
    st.integers(0, 400),
    st.floats(1e-6, 10.0),
)
def test_every_rate_is_positive_and_none_is_above_the_highest(
    schedule: str, steps: int, warmup: int, lr: float
) -> None:
    settings = Training.make(steps=steps, warmup=warmup, lr=lr, schedule=schedule)
    rates = [learning_rate(step, settings) for step in range(steps)]
    assert all(0 < rate <= lr * (1 + 1e-12) for rate in rates)
    # It is reached, however short the run, where the warm-up ends.
    top = min(warmup, steps - 1)
    assert rates[top] == pytest.approx(lr)
    assert rates[max(0, top - 1)] == pytest.approx(lr)
    # Before it only up, after it never up.
    assert all(a <= b * (1 + 1e-12) for a, b in pairwise(rates[: top + 1]))
    assert all(b <= a * (1 + 1e-12) for a, b in pairwise(rates[top:]))
