from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from mnemoscope.studies.study import Diverged
from mnemoscope.studies.trials import Trial, cpu_seconds, run_trials, sweep_then_seeds
from mnemoscope.training.config import RunConfig


@dataclass(frozen=True)
class Named:
    name: str


def folder_name(folder: Path) -> Named:
    return Named(folder.name)


def test_results_come_in_order_and_a_diverged_trial_is_reported_not_raised(tmp_path: Path) -> None:
    small = {"lag": 2, "width": 4, "steps": 12, "batch": 4}
    trials = [
        Trial("b", RunConfig.of("copy", "rnn", small)),
        Trial("wild", RunConfig.of("copy", "rnn", {**small, "lr": 1e38, "warmup": 0})),
        Trial("a", RunConfig.of("copy", "gru", small)),
    ]
    found = run_trials(trials, tmp_path, folder_name, jobs=2, label="test", kind=Named)
    assert found[0] == Named("b")
    assert isinstance(found[1], Diverged)
    assert "learning rate" in found[1].diverged
    assert found[2] == Named("a")


def test_time_of_trials_counts_once_wherever_they_ran(tmp_path: Path) -> None:
    trials = [Trial("a", RunConfig.of("copy", "gru", {"lag": 2, "width": 8, "steps": 30}))]
    before, began = cpu_seconds(), time.process_time()
    run_trials(trials, tmp_path, folder_name, jobs=1, label="test", kind=Named)
    here = time.process_time() - began
    assert cpu_seconds() - before == pytest.approx(here, abs=0.2 * here)
    before, began = cpu_seconds(), time.process_time()
    run_trials(trials, tmp_path, folder_name, jobs=1, label="test", kind=Named)  # found trained
    assert cpu_seconds() - before > time.process_time() - began


def test_seeds_are_trained_at_the_rate_that_was_best_with_the_first() -> None:
    losses = {("a", 0.1): 3.0, ("a", 0.2): 1.0, ("b", 0.1): 2.0, ("b", 0.2): math.inf}
    asked: list[tuple[list[str], list[str] | None]] = []

    def trial(name: str, rate: float, seed: int) -> Trial:
        return Trial(f"{name} {rate} {seed}", RunConfig.of("copy", "gru", {}))

    def train(trials: list[Trial], later: list[Trial] | None) -> list[float]:
        names = [one.name for one in trials]
        asked.append((names, [one.name for one in later] if later else None))
        return [losses[one.split()[0], float(one.split()[1])] for one in names]

    seen, best = sweep_then_seeds(["a", "b"], [0.1, 0.2], 2, trial, train, lambda loss: loss)
    assert best == {"a": 0.2, "b": 0.1}
    # The rates of those that come later are not known yet.
    assert asked == [
        (["a 0.1 0", "a 0.2 0", "b 0.1 0", "b 0.2 0"], ["a 0.1 1", "b 0.1 1"]),
        (["a 0.2 1", "b 0.1 1"], None),
    ]
    assert list(seen)[-2:] == [("a", 0.2, 1), ("b", 0.1, 1)]
    assert seen["b", 0.2, 0] == math.inf
