"""Several processes by torchrun: the same weights, and the same promises when killed."""

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
import torch

import children
from children import PATIENCE, has_step, wait_until
from mnemoscope.training.checkpoint import ProcessMismatchError
from mnemoscope.training.config import RunConfig
from mnemoscope.training.loop import resume, train
from mnemoscope.training.run import Run

Make = Callable[..., RunConfig]


class Team:
    """Two processes at work on a run."""

    def __init__(self, folder: Path, config: RunConfig | None = None) -> None:
        self.report = folder.with_name(f"{folder.name}-{config is None}")
        self.pids = folder.with_name(f"{self.report.name}-pids")
        self.pids.mkdir()
        written = ""
        if config is not None:
            written = str(folder.with_name(f"{folder.name}.yaml"))
            Path(written).write_text(config.to_yaml())
        script = Path(children.__file__)
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        self.process = subprocess.Popen(
            [*torchrun, "--nproc_per_node", "2", script, folder, self.report, written, self.pids],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def end(self) -> tuple[int, str]:
        printed, _ = self.process.communicate(timeout=PATIENCE)
        reports = sorted(self.report.parent.glob(f"{self.report.name}[01]"))
        return self.process.returncode, printed + "".join(path.read_text() for path in reports)

    def kill_when(self, ready: Callable[[], bool]) -> None:
        wait_until(lambda: ready() or self.process.poll() is not None)
        assert self.process.poll() is None, self.end()
        # The launcher first, lest it tidies up after the others.
        for pid in [self.process.pid, *(int(path.name) for path in self.pids.iterdir())]:
            os.kill(pid, signal.SIGKILL)
        self.end()

    def kill_one_when(self, ready: Callable[[], bool]) -> None:
        """Kill one of the two, and neither the other nor the launcher."""
        wait_until(lambda: ready() or self.process.poll() is not None)
        assert self.process.poll() is None, self.end()
        os.kill(max(int(path.name) for path in self.pids.iterdir()), signal.SIGKILL)


def test_two_processes_train_as_one(
    small: Make, tmp_path: Path, measured: Callable[[Path], list[dict[str, Any]]]
) -> None:
    config = small("text", "lstm", steps=60, checkpoint_every=5, evaluate_every=20)
    code, said = Team(tmp_path / "two", config).end()
    assert code == 0, said
    two = Run.open(tmp_path / "two")

    # As one process, but for the order of adding up.
    one = train(config, tmp_path / "one")
    weights = two.model().state_dict()
    for name, weight in one.model().state_dict().items():
        torch.testing.assert_close(weights[name], weight, rtol=1e-3, atol=1e-4, msg=name)
    for mine, theirs in zip(measured(two.folder), measured(one.folder), strict=True):
        assert mine == pytest.approx(theirs, rel=1e-3)

    # Killed, and the memory of the second process damaged: both go back to the checkpoint before.
    folder = tmp_path / "killed"
    Team(folder, config).kill_when(has_step(folder, 15))
    checkpoints = sorted((folder / "checkpoints").glob("step-????????"))
    damaged = checkpoints[-1] / "memory-1-0.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])

    with pytest.raises(ProcessMismatchError, match=r"states of 2 processes, this run has 1: res"):
        resume(folder)
    assert Run.open(folder).model() is not None

    code, said = Team(folder).end()
    assert code == 0, said
    assert said.count(f"{damaged.parent} cannot be used") == 2
    assert (folder / "model.safetensors").read_bytes() == (
        two.folder / "model.safetensors"
    ).read_bytes()
    assert measured(folder) == measured(two.folder)

    # One of the two dies: the other says so and ends, and both continue together.
    folder = tmp_path / "bereft"
    bereft = Team(folder, config)
    bereft.kill_one_when(has_step(folder, 15))
    began = time.monotonic()
    code, said = bereft.end()
    assert code != 0
    assert time.monotonic() - began < 30  # seconds, on a machine that has nothing else to do
    assert "LostProcessError: another process of this run has ended, so this one ends too" in said
    assert f"torchrun --nproc-per-node 2 -m mnemoscope resume {folder}" in said
    code, said = Team(folder).end()
    assert code == 0, said
    assert (folder / "model.safetensors").read_bytes() == (
        two.folder / "model.safetensors"
    ).read_bytes()


def test_a_batch_that_does_not_divide(small: Make, tmp_path: Path) -> None:
    code, said = Team(tmp_path / "run", small(batch=5)).end()
    assert code != 0
    assert said.count("UserError: batch 5 does not divide into 2 processes × 1 parts") == 2
    assert not (tmp_path / "run").exists()
