"""Absolute positions, relative attention: do models that are told where a token stands make waves?

Small language models and masked language models with learned, sinusoidal, rotary and no positions
are trained on the same passages and measured as they train, after Yamamoto and Matsuzaki 2023.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from mnemoscope.core.config import DISTINCT
from mnemoscope.core.errors import UserError
from mnemoscope.data.delayed_answer import DelayedAnswer
from mnemoscope.data.masked_lm import MaskedLM
from mnemoscope.data.vocabulary import SMALLEST_BPE, Unit
from mnemoscope.models.encoder.config import Encoder
from mnemoscope.studies.study import (
    Device,
    Diverged,
    LearningRate,
    ShapedStudy,
    Steps,
    TrainPrecision,
)
from mnemoscope.studies.trials import Trial, run_trials, training_of
from mnemoscope.studies.waves import page
from mnemoscope.studies.waves.result import OBJECTIVES, Examined, WavesResult, WavesTrial
from mnemoscope.training.config import RunConfig

Positions = Literal["learned", "sinusoidal", "rotary", "none"]


class WavesStudy(ShapedStudy):
    """Position waves

    All that many models are told of order is a vector for every absolute position. How do their
    heads look two tokens back, wherever they stand?
    """

    Result = WavesResult
    page = staticmethod(page.page)
    presets = {
        "paper": {
            "width": 256, "layers": 6, "heads": 8, "length": 256, "steps": 50_000, "batch": 64,
            "lr": 1e-3, "warmup": 2000, "texts": 200, "checkpoints": 10,
        },
    }  # fmt: skip

    lr: LearningRate = 3e-3
    device: Device = "auto"
    precision: TrainPrecision = "auto"
    positions: Annotated[tuple[Positions, ...], DISTINCT] = Field(
        ("learned", "sinusoidal", "rotary", "none"), min_length=1, description="kinds to compare"
    )
    calls: int = Field(8, ge=2, description="kinds of calls in the made-up language")
    back: int = Field(3, ge=1, description="how many tokens after a call its answer comes")
    source: str | None = Field(
        None, description="a text to learn instead of the made-up language, as for passages"
    )
    unit: Unit = Field("bytes", description="what a token of it is: bytes, characters or bpe")
    vocabulary_size: int = Field(
        2048, ge=SMALLEST_BPE, description="most tokens BPE may learn; only for bpe"
    )
    length: int = Field(64, ge=24, description="tokens in a passage")
    steps: Steps = 600
    batch: int = Field(16, ge=1, description="passages per step")
    warmup: int = Field(50, ge=0, description="steps over which the learning rate rises")
    seeds: int = Field(3, ge=1, description="trainings per kind")
    checkpoints: int = Field(
        4, ge=1, description="checkpoints at which a model is measured, the last at its end"
    )
    texts: int = Field(100, ge=4, description="held-out passages that are read at a checkpoint")
    real: str = Field(
        "auto", description="a Hugging Face model to measure too; auto = MiniLM if installed, none"
    )
    real_length: int = Field(256, ge=24, description="tokens it reads at once")
    real_texts: int = Field(200, ge=4, description="texts it reads")

    def run(self, folder: Path, jobs: int) -> WavesResult:
        """Train every kind with every seed, measure each as it trains, then a real model."""
        from mnemoscope.studies.waves.measure import check_real, examine, measure_real

        if self.real not in ("auto", "none"):
            check_real(self.real)
        trials = {
            (objective, kind, seed): Trial(
                f"{objective.lower()}-{kind}-seed{seed}", self._run(objective, kind, seed)
            )
            for objective in OBJECTIVES
            for kind in self.positions
            for seed in range(self.seeds)
        }
        found = run_trials(
            list(trials.values()),
            folder / "runs",
            partial(examine, texts=self.texts),
            jobs,
            "waves",
            kind=Examined,
        )
        rows = tuple(
            WavesTrial(*which, None if isinstance(one, Diverged) else one)
            for which, one in zip(trials, found, strict=True)
        )
        whole = {(row.objective, row.positions) for row in rows if row.examined is not None}
        if len(whole) < len(OBJECTIVES) * len(self.positions):
            raise UserError("every training of one kind diverged: try a lower lr")
        size = self.some("positions", "seeds", "steps", "length", "width", "layers", "heads")
        return WavesResult(**size, trials=rows, real=measure_real(self))

    def _run(self, objective: str, kind: str, seed: int) -> RunConfig:
        shared = {"objective": "next" if objective == "LM" else "masked", "length": self.length}
        task: DelayedAnswer | MaskedLM
        if self.source is None:
            task = DelayedAnswer.make(calls=self.calls, back=self.back, **shared)
        else:
            task = MaskedLM.make(**self.some("source", "unit", "vocabulary_size"), **shared)
        model = Encoder.make(
            vocab=task.vocab,
            positions=kind,
            context=self.length,
            causal=objective == "LM",
            **self.some("width", "layers", "heads"),
        )
        every = max(1, self.steps // self.checkpoints)
        often = {"evaluate_every": every, "evaluate_batches": 8, "checkpoint_every": every}
        often |= {"keep": self.checkpoints + 1}
        training = training_of(self, seed=seed, **self.some("lr", "warmup"), **often)
        name = "delayed_answer" if self.source is None else "masked_lm"
        return RunConfig(name, task, "encoder", model, training)
