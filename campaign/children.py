"""Trainings in processes of their own, from a fork server that has torch in it."""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

PATIENCE = 180.0
PRELOADED = ["mnemoscope.training.loop", "accelerate", "torch._dynamo"]
# The user that nobody is: what root may do anywhere shows nothing.
NOBODY = 65534


def _work(folder: str, config: str | None, said: str, limit: int | None, drop: bool) -> None:
    import torch

    from mnemoscope.core.errors import UserError
    from mnemoscope.training.config import RunConfig
    from mnemoscope.training.loop import resume, train

    torch.set_num_threads(1)
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    report = os.open(said, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    if drop and os.getuid() == 0:
        os.setuid(NOBODY)
    try:
        if config is None or os.path.isfile(os.path.join(folder, "config.yaml")):  # never raises
            resume(folder, silent=True)
        else:
            train(RunConfig.from_yaml(config), folder, silent=True)
    except UserError as error:
        os.write(report, str(error).encode()[:1000])
        sys.exit(2)


class Child:
    """One process that trains a config in a folder, or continues with what lies there."""

    def __init__(
        self, folder: Path, config: str | None, *, limit: int | None = None, drop: bool = False
    ) -> None:
        self._report = folder.with_name(f"{folder.name}.{time.monotonic_ns()}.said")
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        given = (str(folder), config, str(self._report), limit, drop)
        self.process: BaseProcess = context.Process(target=_work, args=given)
        self.process.start()

    def kill_after(self, seconds: float) -> bool:
        """Send SIGKILL after some time; says whether it was still at work then."""
        self.process.join(seconds)
        alive = self.process.is_alive()
        self.process.kill()
        self.process.join()
        return alive

    def end(self) -> tuple[int, str]:
        """Wait for its end: exit code, and the message if it was refused."""
        self.process.join(PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
            return -1, f"still at work after {PATIENCE:g} s"
        said = self._report.read_text() if self._report.exists() else ""
        return self.process.exitcode or 0, said
