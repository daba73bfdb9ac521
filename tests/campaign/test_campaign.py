"""A small draw of the fault campaign; ``python -m campaign`` is all of it."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from campaign.scheduler import Setting, simulate
from campaign.table import Row, markdown

from campaign import trainings

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="forks and signals, as Linux has them"
)


def test_a_small_draw_of_all_faults_of_a_training_loses_nothing(tmp_path: Path) -> None:
    draw = random.Random(7)
    whole = trainings.references(tmp_path, ["gru", "compressive"])
    rows = [
        *trainings.kills(tmp_path, whole, 4, draw),
        *trainings.files(tmp_path, whole, 4, draw),
        *trainings.disks(tmp_path, whole[:1]),
        *trainings.two_writers(tmp_path, whole[:1]),
    ]
    assert sum(row.tried for row in rows) == 11
    assert not any(row.lost for row in rows), markdown(rows)


def test_a_table_says_what_was_lost_and_how() -> None:
    row = Row("flood")
    row.add(True)
    row.add(True, told=True)
    row.add(False, "it rained")
    said = markdown([row])
    assert "| flood | 3 | 1 | 1 | 1 |" in said
    assert "| **all** | 3 | 1 | 1 | 1 |" in said
    assert "- flood: it rained" in said


def test_an_engine_that_is_not_known_is_refused() -> None:
    command = [sys.executable, "-m", "campaign", "--engines", "rya"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "unknown engine 'rya'" in done.stderr


def test_without_faults_the_scheduler_loses_only_the_last_trials() -> None:
    calm = simulate(Setting(trials=50, workers=5, between_kills=0))
    assert (calm.kills, calm.done_twice, calm.silent) == (0, 0, 0)
    # Graham's bound for any list: at most (2 - 1/m) times what is possible.
    assert calm.ideal <= calm.makespan <= (2 - 1 / 5) * calm.ideal


def test_a_kill_costs_at_most_a_checkpoint_and_the_patience_of_the_others() -> None:
    setting = Setting(trials=50, workers=5, between_kills=900)
    wild = simulate(setting)
    assert wild.kills > 5
    assert 0 < wild.done_twice < wild.kills * setting.checkpoint
    assert wild.silent <= wild.kills * setting.patience
