"""Studies whose processes are killed, fall asleep or see wild clocks, under every engine."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from campaign.table import Row
from campaign.trainings import SMALL
from mnemoscope.core.registry import MEMORIES
from mnemoscope.report.document import Section
from mnemoscope.studies.engines.claims import newest
from mnemoscope.studies.study import Diverged, Study
from mnemoscope.studies.trials import Trial, run_trials
from mnemoscope.training.config import RunConfig
from mnemoscope.training.run import Run

ROOT = Path(__file__).parents[1]
NAME = "campaign.studies:Campaign"
PATIENCE = 300.0
# Seconds that a command waits for the head of its cluster to come back; a minute, usually.
RAY = {"RAY_gcs_rpc_server_reconnect_timeout_s": "10"}
ENGINES: dict[str, list[str]] = {
    "local": ["--jobs", "2"],
    "shared": ["--jobs", "2", "--engine", "shared", "--patience", "3"],
    "ray": ["--engine", "ray"],
    "slurm": ["--engine", "slurm", "--cluster", "local", "--jobs", "2"],
}


@dataclass(frozen=True)
class Loss:
    loss: float


@dataclass(frozen=True)
class Losses:
    losses: dict[str, Loss | Diverged]


def draw_page(result: Losses) -> list[Section]:
    return [Section("Losses", [", ".join(result.losses)])]


def last_loss(folder: Path) -> Loss:
    return Loss(Run.open(folder).valid_loss)


class Campaign(Study):
    """What is left after faults?

    One small training of every memory, to be killed."""

    Result = Losses
    page = staticmethod(draw_page)

    steps: int = Field(200, ge=1)
    memories: tuple[str, ...] = tuple(MEMORIES)

    def run(self, folder: Path, jobs: int) -> Losses:
        options = {**SMALL, "steps": self.steps}
        trials = [Trial(name, RunConfig.of("copy", name, options)) for name in self.memories]
        found = run_trials(trials, folder / "runs", last_loss, jobs, "campaign", kind=Loss)
        return Losses(dict(zip(self.memories, found, strict=True)))


class Command:
    """``mnemoscope study`` in a process of its own."""

    def __init__(self, folder: Path, words: list[str], retries: int = 1000) -> None:
        self.folder = folder
        study = ["study", NAME, "--trust", "campaign.studies", "--out", str(folder)]
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.log = folder.with_name(f"{folder.name}.{time.monotonic_ns()}.log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mnemoscope", *study, "--retries", str(retries), *words],
                env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **RAY},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def end(self) -> int:
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace").strip()[-400:]

    def children(self, program: str) -> list[int]:
        """Processes of a program that this one started."""
        found = []
        for status in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # gone since it was listed
                name, _, rest = status.read_text().partition("(")[2].rpartition(")")
                if name == program and int(rest.split()[1]) == self.process.pid:
                    found.append(int(status.parent.name))
        return found

    def workers(self) -> list[int]:
        """Processes that hold the claim of a trial now."""
        claims = self.folder / "runs" / ".claims"
        seen = (newest(claims, name) for name in MEMORIES)
        return [one.holder.process for one in seen if one and not one.over]


def outcome(folder: Path) -> tuple[Any, dict[str, bytes]]:
    """The result of a study, and the weights of its trials."""
    found = json.loads((folder / "result.json").read_text())
    assert not found["missing"], found["missing"]
    models = sorted(folder.glob("runs/*/model.safetensors"))
    return found["result"], {path.parent.name: path.read_bytes() for path in models}


def reference(home: Path) -> tuple[Any, dict[str, bytes]]:
    command = Command(home / "whole", ENGINES["local"])
    assert command.end() == 0, command.said
    return outcome(home / "whole")


def equal(command: Command, code: int, whole: tuple[Any, dict[str, bytes]]) -> bool:
    return code == 0 and outcome(command.folder) == whole


def worker_kills(
    home: Path, engine: str, count: int, draw: random.Random, whole: tuple[Any, dict[str, bytes]]
) -> Row:
    """SIGKILL for workers of an engine at random moments, until there were so many."""
    row, number = Row(f"SIGKILL, worker of {engine}"), 0
    while row.tried < count:
        number += 1
        command, killed = Command(home / f"{engine}-{number}", ENGINES[engine]), 0
        while command.process.poll() is None and row.tried + killed < count:
            time.sleep(draw.uniform(0.02, 1.0))
            for process in command.workers()[:1]:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                    killed += 1
        code = command.end()
        for _ in range(killed):
            row.add(equal(command, code, whole), command.said)
        if not killed and code:
            row.add(False, command.said)
    return row


def study_kills(
    home: Path, engine: str, count: int, draw: random.Random, whole: tuple[Any, dict[str, bytes]]
) -> Row:
    """SIGKILL for the command itself at random moments; given again, it ends right."""
    row, number = Row(f"SIGKILL, study with --engine {engine}"), 0
    while row.tried < count:
        number += 1
        folder = home / f"study-{engine}-{number}"
        killed = 0
        for _ in range(draw.randint(1, 3)):
            command = Command(folder, ENGINES[engine])
            with suppress(subprocess.TimeoutExpired):
                command.process.wait(draw.uniform(3.0, 12.0))
            if command.process.poll() is None:
                command.process.kill()
                command.process.wait()
                killed += 1
        command = Command(folder, ENGINES[engine])
        code = command.end()
        for _ in range(killed):
            row.add(equal(command, code, whole), command.said)
    return row


def head_kills(home: Path, count: int, whole: tuple[Any, dict[str, bytes]]) -> Row:
    """SIGKILL for the head of Ray's cluster while trials are under way; given again, it ends right.

    The command cannot continue without its cluster: it has to end by itself, not to hang.
    """
    row = Row("SIGKILL, head of ray")
    for number in range(count):
        command = Command(home / f"head-{number}", ENGINES["ray"])
        deadline = time.monotonic() + PATIENCE
        while not command.workers() and time.monotonic() < deadline:
            time.sleep(0.05)
        (head,) = command.children("gcs_server")
        os.kill(head, signal.SIGKILL)
        ended = command.end()
        if ended in (0, -signal.SIGKILL):
            row.add(False, f"ended with {ended}: {command.said}")
            continue
        again = Command(command.folder, ENGINES["ray"])
        row.add(equal(again, again.end(), whole), again.said)
    return row


def asleep(
    home: Path, count: int, draw: random.Random, whole: tuple[Any, dict[str, bytes]]
) -> Iterator[Row]:
    """Two commands share a folder. A worker is stopped until it is taken over, then wakes up; and
    all files have times of the far past or future meanwhile.
    """
    row, clocks = Row("stopped heartbeat, then awake again"), Row("clocks of 1970 and 2038")
    for number in range(count):
        folder = home / f"asleep-{number}"
        both = [Command(folder, ENGINES["shared"]) for _ in range(2)]
        deadline = time.monotonic() + PATIENCE
        while not (workers := both[0].workers()) and time.monotonic() < deadline:
            time.sleep(0.01)
        sleeper = draw.choice(workers)
        os.kill(sleeper, signal.SIGSTOP)
        while any(one.process.poll() is None for one in both) and time.monotonic() < deadline:
            with suppress(OSError):  # what is written meanwhile may be gone when it is listed
                for path in folder.rglob("*"):
                    os.utime(path, (clock := draw.choice([0, 2**31]), clock))
            time.sleep(0.2)
            held = [newest(folder / "runs" / ".claims", name) for name in MEMORIES]
            if sleeper not in [one.holder.process for one in held if one and not one.released]:
                with suppress(ProcessLookupError):
                    os.kill(sleeper, signal.SIGCONT)
        with suppress(ProcessLookupError):
            os.kill(sleeper, signal.SIGCONT)
        codes = [one.end() for one in both]
        fine = equal(both[0], max(codes, key=abs), whole)
        note = f"{codes}: {both[0].said} / {both[1].said}"
        row.add(fine, note)
        clocks.add(fine, note)
    yield row
    yield clocks
