"""Ctrl-C, for real: one line that says how to continue, exit code 130, and nobody left at work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

STUDY = "study tiny_study:Tiny --preset quick --steps 1000000 --trust tiny_study --out s --jobs"

pytestmark = pytest.mark.skipif(not hasattr(os, "killpg"), reason="this system has no signals")


def started(home: Path, jobs: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "mnemoscope", *STUDY.split(), str(jobs)]
    # What workers import comes from the environment; theirs is no folder of tests.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    study = subprocess.Popen(
        command,
        cwd=home,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    wait_until(lambda: len(list(home.glob("s/runs/*/metrics.jsonl"))) == jobs)
    return study


def wait_until(holds: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def at_work(group: int) -> list[str]:
    """What still runs of a group of processes; the dead whom nobody has buried do not count."""
    states = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            _, _, rest = path.read_text().rpartition(")")
        except OSError:
            continue
        state, _, its_group, *_ = rest.split()
        if int(its_group) == group and state != "Z":
            states.append(path.parent.name)
    return states


@pytest.mark.parametrize(
    ("jobs", "send"), [(2, os.killpg), (2, os.kill), (1, os.kill)], ids=["group", "alone", "one"]
)
def test_a_study_that_is_stopped_says_how_to_go_on(
    tmp_path: Path, jobs: int, send: Callable[[int, int], Any]
) -> None:
    study = started(tmp_path, jobs)
    send(study.pid, signal.SIGINT)
    said, _ = study.communicate(timeout=120)
    before, after = said.splitlines()
    assert before.startswith(f"tiny: 2 trainings, {jobs} at a time, about ")
    assert after == f"stopped; nothing is lost. Continue with: mnemoscope {STUDY} {jobs}"
    assert study.returncode == 130
    if Path("/proc").is_dir():
        wait_until(lambda: not at_work(study.pid), 10)
    assert all(list(run.glob("checkpoints/*")) for run in tmp_path.glob("s/runs/[!.]*"))


def test_a_second_one_ends_at_once(tmp_path: Path) -> None:
    study = started(tmp_path, 2)
    study.send_signal(signal.SIGINT)
    study.send_signal(signal.SIGINT)
    while study.poll() is None:  # however it is caught at
        study.send_signal(signal.SIGINT)
        time.sleep(0.01)
    assert study.returncode in (130, -signal.SIGINT)
    said, _ = study.communicate(timeout=120)
    assert "Traceback" not in said
    if Path("/proc").is_dir():
        wait_until(lambda: not at_work(study.pid), 10)
