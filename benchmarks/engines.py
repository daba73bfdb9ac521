"""What it costs to let an engine compute trials, beside plain processes of joblib."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Row, Times, ratio
from mnemoscope.core.errors import UserError
from mnemoscope.studies.engines.engine import named, using
from mnemoscope.studies.trials import Trial, run_trials
from mnemoscope.training.config import RunConfig

TITLE = "40 trials of a few seconds by each engine, against joblib"
SETTING = (
    "40 trainings of a GRU (width 32, 600 steps of 16 rows), two at a time, in a fresh folder each "
    "round: by the engine local, by claim files as shared (one command), and by a Ray cluster of "
    "two CPUs on this machine. Wall-clock time, because what an engine adds is waiting; processes "
    "and cluster are started before. Claim files are written by every engine; shared does without "
    "locks and looks for others."
)
CLOCK = "wall-clock time"
TRIALS, STEPS, ROUNDS, JOBS = 40, 600, 3, 2
ENGINES = ("local", "shared", "ray")


@dataclass(frozen=True)
class Done:
    name: str


def folder_name(folder: Path) -> Done:
    return Done(folder.name)


def run(quick: bool) -> list[Row]:
    """Time rounds of trials by each engine, in turns."""
    trials, steps, rounds = (2, 2, 2) if quick else (TRIALS, STEPS, ROUNDS)
    try:
        for engine in ENGINES:
            _seconds(engine, JOBS, 2)  # processes start, and import torch
        times: Times = {engine: [] for engine in ENGINES}
        for _ in range(rounds):
            for engine in ENGINES:
                times[engine].append(_seconds(engine, trials, steps))
    finally:
        _end_cluster()
    return [
        _row("ray_vs_local_time", "ray", times, trials),
        _row("claims_vs_local_time", "shared", times, trials),
    ]


def _seconds(engine: str, count: int, steps: int) -> float:
    options = {"lag": 8, "width": 32, "batch": 16, "steps": steps, "evaluate_every": steps}
    trials = [
        Trial(f"trial-{seed}", RunConfig.of("copy", "gru", {**options, "seed": seed}))
        for seed in range(count)
    ]
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, using(named(engine, {})):
        run_trials(trials, Path(folder), folder_name, JOBS, engine, kind=Done, later=None)
    return time.perf_counter() - began


def _row(key: str, engine: str, times: Times, trials: int) -> Row:
    best = {name: min(rounds) for name, rounds in times.items()}
    return Row(
        key,
        f"{trials} trials by {engine}, wall-clock time against joblib",
        f"{best[engine]:.2f} s",
        f"{best['local']:.2f} s",
        ratio(times[engine], times["local"]),
        "≤ 1.15",
    )


def _end_cluster() -> None:
    try:
        import ray
    except ImportError as error:
        raise UserError("this benchmark needs ray: pip install 'mnemoscope[ray]'") from error
    ray.shutdown()
