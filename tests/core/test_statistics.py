from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from mnemoscope.core.statistics import (
    bootstrap,
    bootstrap_weights,
    over_seeds,
    quantile_interval,
    standard_error,
)


def test_weights_of_a_resample_add_up_to_one() -> None:
    weights = bootstrap_weights(7, 20, np.random.default_rng(0))
    assert weights.shape == (20, 7)
    np.testing.assert_allclose(weights.sum(1), 1)


def test_a_bootstrap_covers_the_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for seed in range(300):
        found = bootstrap(rng.normal(2, 1, 60), resamples=400, seed=seed)
        covered += bool(found.low <= 2 <= found.high)
    assert 0.9 <= covered / 300 <= 0.98


def test_a_bootstrap_of_a_statistic_keeps_its_shape() -> None:
    values = np.random.default_rng(0).normal(size=(50, 3, 2))
    found = bootstrap(values, lambda means: means.max(-1), resamples=100)
    np.testing.assert_array_equal(found.value, values.mean(0).max(-1))
    assert found.low.shape == found.high.shape == (3,)
    assert (found.low <= found.high).all()


def test_draws_that_are_nan_say_nothing() -> None:
    found = quantile_interval(0.0, np.array([np.nan, 1.0, 2.0, np.nan, 3.0]), 1.0)
    assert (found.low, found.high) == (1.0, 3.0)


def test_seeds_show_their_ends_and_the_error_of_a_mean() -> None:
    found = over_seeds([[1.0, 4.0], [3.0, 2.0]])
    assert found.value.tolist() == [2.0, 3.0]
    assert (found.low.tolist(), found.high.tolist()) == ([1.0, 2.0], [3.0, 4.0])
    assert standard_error([1.0, 3.0]) == pytest.approx(1 / 2**0.5)


def test_statistics_need_no_torch() -> None:
    code = "import sys; sys.modules['torch'] = None; import mnemoscope.core.statistics"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
