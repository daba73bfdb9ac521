"""How long a study will take is said before it starts, from timed steps."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
import torch

from mnemoscope.studies.estimate import WORTH_SAYING, announce, duration, seconds_of
from mnemoscope.studies.trials import Trial, _left
from mnemoscope.training.config import RunConfig
from mnemoscope.training.loop import step_seconds


def config(memory: str = "gru", steps: int = WORTH_SAYING, seed: int = 0) -> RunConfig:
    return RunConfig.of("copy", memory, {"width": 4, "steps": steps, "seed": seed, "batch": 2})


@pytest.mark.parametrize(("tick", "seconds"), [(6.0, 6.0), (0.3, 0.1)])
def test_a_step_is_timed_by_the_clock_and_nothing_else_is_left_changed(
    tick: float, seconds: float
) -> None:
    ticks = (tick * number for number in count())
    threads, drawn = torch.get_num_threads(), torch.random.get_rng_state()
    # Two looks at the clock around one step; of short steps three more are timed together.
    assert step_seconds(config(), lambda: next(ticks)) == pytest.approx(seconds)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.random.get_rng_state(), drawn)


def test_seconds_are_steps_times_one_timed_step_of_every_kind() -> None:
    asked: list[str] = []

    def timed(one: RunConfig) -> float:
        asked.append(one.memory)
        return {"gru": 2.0, "lstm": 5.0}[one.memory]

    trials = [
        config(m, steps, seed) for m in ("gru", "lstm") for steps in (10, 30) for seed in (0, 1)
    ]
    assert seconds_of(trials, timed) == 2 * (10 + 30) * (2.0 + 5.0)
    assert asked == ["gru", "lstm"]


def test_what_is_said_scales_with_jobs_and_nothing_is_said_of_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    announce("lag", [], 2)
    announce("lag", [config(steps=1)], 2)
    assert capsys.readouterr().err == ""
    announce("lag", [config(), config(seed=1), config(seed=2)], 2)
    said = capsys.readouterr().err
    assert said.startswith("lag: 3 trainings, 2 at a time, about ")
    assert "on this machine" in said
    announce("lag", [config()], 2)
    assert capsys.readouterr().err.startswith("lag: one training about ")
    assert [duration(s) for s in (0.1, 40, 200, 9000)] == [
        "1 seconds",
        "40 seconds",
        "3 minutes",
        "2.5 hours",
    ]


def test_only_what_is_not_done_counts(tmp_path: Path) -> None:
    first = [Trial(f"gru-lr{rate}", config()) for rate in (1, 2)]
    later = [Trial(f"gru-lr1-seed{seed}", config(seed=seed)) for seed in (1, 2)]
    assert _left(first, later, tmp_path) == [*first, *later]
    # The second rate was the better one, so what came later has other names than was thought.
    for name in ("gru-lr1", "gru-lr2", "gru-lr2-seed1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "examined.json").write_text("{}")
    assert _left(first, later, tmp_path) == later[1:]
    (tmp_path / "gru-lr2-seed2").mkdir()
    (tmp_path / "gru-lr2-seed2" / "examined.json").write_text("{}")
    assert _left(first, later, tmp_path) == []
