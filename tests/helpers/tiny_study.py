"""A study of two small trainings, for tests of what all studies do: ``tiny_study:Tiny``; and `LAG`,
options that make the study `lag` about as small.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from mnemoscope.core.errors import UserError
from mnemoscope.report.document import Section
from mnemoscope.studies.study import Diverged, Page, Study
from mnemoscope.studies.trials import Trial, run_trials
from mnemoscope.training.config import RunConfig
from mnemoscope.training.run import Run

LAG: dict[str, Any] = {
    "parameters": 1500,
    "trained": 4,
    "tested": (1, 4),
    "steps": 4,
    "batch": 4,
    "seeds": 1,
}


@dataclass(frozen=True)
class Loss:
    loss: float


@dataclass(frozen=True)
class Losses:
    losses: dict[str, Loss | Diverged]


def page(result: Losses) -> list[Section]:
    losses = [f"{n} {one.loss:.12f}" for n, one in result.losses.items() if isinstance(one, Loss)]
    return [Section("Losses", losses)]


def last_loss(folder: Path) -> Loss:
    return Loss(Run.open(folder).metrics()[-1]["valid_loss"])


class Tiny(Study):
    title: ClassVar[str] = "Tiny"
    question: ClassVar[str] = "Which loss has a small model?"
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {}}

    memories: tuple[str, ...] = ("rnn", "gru")
    steps: int = Field(2, ge=1)
    lr: float = Field(1e-3, gt=0)
    refused: bool = False

    Result: ClassVar[type] = Losses
    page: ClassVar[Page] = staticmethod(page)

    def run(self, folder: Path, jobs: int) -> Losses:
        if self.refused:
            raise UserError("there is no such data")
        small = {"lag": 2, "width": 4, "batch": 4, "steps": self.steps, "lr": self.lr}
        small["evaluate_every"] = self.steps
        trials = [Trial(name, RunConfig.of("copy", name, small)) for name in self.memories]
        found = run_trials(trials, folder / "runs", last_loss, jobs, "tiny", kind=Loss)
        return Losses(dict(zip(self.memories, found, strict=True)))


class Waiting(Tiny):
    """Says that it works, until it is told that this is enough."""

    def run(self, folder: Path, jobs: int) -> Losses:
        print("works", flush=True)
        sys.stdin.readline()
        raise UserError("enough")


class Faulty(Tiny):
    """Asks of some trials what kills their process, or raises; as often as is said."""

    memories: tuple[str, ...] = ("rnn", "gru", "lstm")
    dying: tuple[str, ...] = ()
    raising: tuple[str, ...] = ()
    times: int = 1000
    slow: float = 0.0

    def run(self, folder: Path, jobs: int) -> Losses:
        small = {"lag": 2, "width": 8, "batch": 4, "steps": self.steps}
        small["evaluate_every"] = self.steps
        trials = [Trial(name, RunConfig.of("copy", name, small)) for name in self.memories]
        ask = partial(
            faulty_loss,
            dying=self.dying,
            raising=self.raising,
            times=self.times,
            slow=self.slow,
        )
        found = run_trials(trials, folder / "runs", ask, jobs, "tiny", kind=Loss)
        return Losses(dict(zip(self.memories, found, strict=True)))


def faulty_loss(
    folder: Path, dying: tuple[str, ...], raising: tuple[str, ...], times: int, slow: float
) -> Loss:
    time.sleep(slow)
    tried = folder / "tried.part"
    count = len(tried.read_text()) if tried.exists() else 0
    if folder.name in (*dying, *raising) and count < times:
        tried.write_text("x" * (count + 1))
        if folder.name in dying:
            os.kill(os.getpid(), signal.SIGKILL)
        raise RuntimeError("this trial cannot be examined")
    return last_loss(folder)
