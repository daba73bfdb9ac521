"""A study of two small trainings, for tests of what all studies do: ``tiny_study:Tiny``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from mnemoscope.core.errors import UserError
from mnemoscope.report.document import Section
from mnemoscope.studies.study import Study
from mnemoscope.studies.trials import Trial, run_trials
from mnemoscope.training.config import RunConfig
from mnemoscope.training.run import Run


class Tiny(Study):
    title: ClassVar[str] = "Tiny"
    question: ClassVar[str] = "Which loss has a small model?"
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {}}

    memories: tuple[str, ...] = ("rnn", "gru")
    steps: int = Field(2, ge=1)
    lr: float = Field(1e-3, gt=0)
    refused: bool = False

    def run(self, folder: Path, jobs: int) -> dict[str, Any]:
        if self.refused:
            raise UserError("there is no such data")
        small = {"lag": 2, "width": 4, "batch": 4, "steps": self.steps, "lr": self.lr}
        small["evaluate_every"] = self.steps
        trials = [Trial(name, RunConfig.of("copy", name, small)) for name in self.memories]
        found = run_trials(trials, folder / "runs", last_loss, jobs, "tiny")
        return {"losses": dict(zip(self.memories, found, strict=True))}

    def tell(self, result: dict[str, Any], folder: Path) -> Sequence[Section]:
        losses = [f"{name} {values['loss']:.12f}" for name, values in result["losses"].items()]
        return [Section("Losses", losses)]


def last_loss(folder: Path) -> dict[str, Any]:
    return {"loss": Run.open(folder).metrics()[-1]["valid_loss"]}


class Waiting(Tiny):
    """Says that it works, until it is told that this is enough."""

    def run(self, folder: Path, jobs: int) -> dict[str, Any]:
        print("works", flush=True)
        sys.stdin.readline()
        raise UserError("enough")
