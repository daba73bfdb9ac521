"""Runs in processes of their own, so that a test can kill them.

Children come from a fork server that has torch in it: clean processes, in a tenth of the time.
Under torchrun this file is the script.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

PATIENCE = 60.0
# All that a first step of training would import, at a second a child.
PRELOADED = ["mnemoscope.training.loop", "accelerate", "torch._dynamo"]


def work(job: dict[str, Any]) -> None:
    """Train or resume as a job says; what the user would read goes to the job's report."""
    import torch

    from mnemoscope.core.errors import UserError
    from mnemoscope.training.config import RunConfig
    from mnemoscope.training.loop import resume, train

    torch.set_num_threads(1)
    warnings.simplefilter("error")
    report = Path(job["report"] + os.environ.get("RANK", ""))
    logging.basicConfig(filename=report, level=logging.WARNING)
    if job["file_limit"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (job["file_limit"],) * 2)
    if job["kill_at"] is not None:
        _kill_at(job["kill_at"], job["out"])
    try:
        if job["config"] is None:
            resume(job["out"])
        else:
            train(RunConfig.from_yaml(job["config"]), job["out"])
    except UserError as error:
        with open(report, "a") as file:
            file.write(f"{type(error).__name__}: {error}")
        sys.exit(1)


def _kill_at(event: int, folder: str) -> None:
    """Let this process die, as by kill -9, before the nth thing it does to files of a folder."""
    names = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir"}
    left = event

    def watch(name: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if name in names and str(arguments[0]).startswith(folder):
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1

    sys.addaudithook(watch)


@dataclass
class Child:
    """One process at work on a run."""

    folder: Path
    report: Path
    process: BaseProcess

    @classmethod
    def start(
        cls,
        folder: Path,
        config: str | None = None,
        *,
        file_limit: int | None = None,
        kill_at: int | None = None,
    ) -> Child:
        """Train a config (YAML) in a folder, or resume what is there."""
        report = folder.with_name(f"{folder.name}.{time.monotonic_ns()}.report")
        job = {
            "out": str(folder),
            "config": config,
            "report": str(report),
            "file_limit": file_limit,
            "kill_at": kill_at,
        }
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        process = context.Process(target=work, args=(job,))
        process.start()
        return cls(folder, report, process)

    def end(self) -> int:
        """Wait until it has ended and return its exit code."""
        self.process.join(PATIENCE)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
            raise AssertionError(f"still running after {PATIENCE} s: {self.said}")
        return self.process.exitcode

    def signal_when(self, number: int, ready: Callable[[], bool]) -> int:
        """Send a signal as soon as something is the case, and return the exit code."""
        wait_until(lambda: ready() or not self.process.is_alive())
        assert self.process.is_alive(), f"ended before it could be stopped: {self.said}"
        assert self.process.pid is not None
        os.kill(self.process.pid, number)
        return self.end()

    @property
    def said(self) -> str:
        return self.report.read_text() if self.report.exists() else ""


def wait_until(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not ready():
        assert time.monotonic() < deadline, f"waited {PATIENCE} s in vain"
        time.sleep(0.001)


def has_step(folder: Path, step: int) -> Callable[[], bool]:
    return lambda: (folder / "checkpoints" / f"step-{step:08d}").exists()


if __name__ == "__main__":
    folder, report, config, pids = sys.argv[1:5]
    (Path(pids) / str(os.getpid())).touch()
    work(
        {
            "out": folder,
            "report": report,
            "config": Path(config).read_text() if config else None,
            "file_limit": None,
            "kill_at": None,
        }
    )
