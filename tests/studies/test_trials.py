from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mnemoscope.studies.study import Diverged
from mnemoscope.studies.trials import Trial, run_trials
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
