"""Ctrl-C at any moment: one line that says how to continue, exit code 130, no traceback."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from complaints import complaint

from mnemoscope.cli import STOPPED
from mnemoscope.training import loop
from mnemoscope.training.config import RunConfig

# Presses Ctrl-C at the moment when a library begins to be imported.
PRESS = """
import os, signal, sys

class Press:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

# What a shell starts in the background ignores Ctrl-C, and so would its children.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Press())
from mnemoscope.cli import main
main({words!r})
"""
TRAIN = ["train", "copy", "--steps", "1", "--width", "4", "--out", "run"]


@pytest.mark.parametrize("name", ["logging", "rich", "cyclopts", "pydantic", "torch", "torch.nn"])
def test_while_libraries_are_imported(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRESS.format(name=name, words=TRAIN)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr, done.stdout) == (130, f"{STOPPED}\n", "")
    assert not list(tmp_path.iterdir())


def test_a_library_that_turns_it_into_an_error_of_its_own(tmp_path: Path) -> None:
    # As extensions do whose initialisation is interrupted.
    (tmp_path / "sitecustomize.py").write_text(
        "import builtins\n"
        "before = builtins.__import__\n"
        "def load(name, *rest, **more):\n"
        "    if name == 'torch':\n"
        "        try:\n"
        "            raise KeyboardInterrupt\n"
        "        except KeyboardInterrupt as error:\n"
        "            raise ImportError('torch failed to import') from error\n"
        "    return before(name, *rest, **more)\n"
        "builtins.__import__ = load\n"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "mnemoscope", *TRAIN],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (130, f"{STOPPED}\n")


def test_pressed_twice_it_does_not_wait_for_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(self: loop._Trainer, step: int) -> None:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("it waited")

    monkeypatch.setattr(loop._Trainer, "step", step)
    config = RunConfig.of("copy", "gru", {"width": 4, "steps": 9, "device": "cpu"})
    said = complaint(lambda: loop.train(config, tmp_path / "run"))
    assert said
    assert "up to the last checkpoint is kept" in said
    assert said.endswith(f"Continue with: mnemoscope resume {tmp_path / 'run'}")


def test_two_processes_speak_once_and_name_torchrun(tmp_path: Path) -> None:
    book = tmp_path / "book.txt"
    book.write_text("the cat sat on the mat. " * 200)
    words = ["train", "characters", "--memory", "gru", "--source", str(book), "--steps", "1000000"]
    words += ["--width", "4", "--batch", "4", "--segment", "8", "--out", "run", "--device", "cpu"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    with subprocess.Popen(
        [*torchrun, "--nproc-per-node", "2", "-m", "mnemoscope", *words],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    ) as running:
        metrics = tmp_path / "run" / "metrics.jsonl"
        deadline = time.monotonic() + 90
        while not (metrics.is_file() and metrics.stat().st_size):
            assert running.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        # A terminal sends it to all of them, and torchrun passes it on once more.
        os.killpg(running.pid, signal.SIGINT)
        said = running.communicate(timeout=90)[1]
    found = re.findall(r"stopped after step (\d+); nothing is lost\. Continue with: (.*)", said)
    assert len(found) == 1, said
    step, typed = found[0]
    assert typed == "torchrun --nproc-per-node 2 -m mnemoscope resume run"
    assert (tmp_path / "run" / "checkpoints" / f"step-{int(step):08d}").is_dir()
    assert STOPPED not in said
