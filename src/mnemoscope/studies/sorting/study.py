"""How much of a long stream do Transformer-XL, Compressive Transformer and ∞-former keep?

The sorting task of Martins 2022: read a long stream of symbols whose probabilities drift, then
name them by how often they came. What one has seen last misleads, so whoever answers well has
kept something of the whole stream. All models carry a state of the same size.

Nothing here imports torch before the study runs, so that a mistyped option shows at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from mnemoscope.core.config import DISTINCT
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.core.registry import MEMORY_NAMES, find
from mnemoscope.data.sorting import Sorting as Task
from mnemoscope.memories.config import MOST_LAYERS
from mnemoscope.report.document import Section
from mnemoscope.studies.study import Study
from mnemoscope.studies.trials import Trial, run_trials
from mnemoscope.training.config import RunConfig, Training

Ints = NDArray[np.int64]

# What is compared: a name, the memory it is, and what people call it.
CONTENDERS = {
    "transformer_xl": ("transformer_xl", "Transformer-XL"),
    "compressive": ("compressive", "Compressive"),
    "fixed": ("infinite", "∞-former, τ fixed"),
    "sticky": ("infinite", "∞-former, τ fixed, sticky"),
    "equal": ("infinite", "∞-former, equal shares"),
}
REPORTING = 2


class SortingStudy(Study):
    """Options of the study; presets change them."""

    title: ClassVar[str] = "How much of a long stream is kept?"
    question: ClassVar[str] = (
        "A long stream of symbols is read, whose probabilities drift; then all symbols must be "
        "named, the most frequent first. How well do Transformer-XL, Compressive Transformer and "
        "∞-former answer, with states of the same size, as the stream grows?"
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {},
        "prototype": {
            "trained": (1024,),
            "tested": (256, 512, 1024, 2048, 4096, 8192),
            "width": 128,
            "segment": 128,
            "carried": 128,
            "steps": 1000,
            "lr": 1e-3,
        },
        "paper": {
            "trained": (4000, 8000, 16_000),
            "tested": (4000, 8000, 16_000),
            "layers": 3,
            "width": 300,
            "heads": 6,
            "mlp_ratio": 1,
            "segment": 1024,
            "carried": 1536,
            "recent": 1024,
            "steps": 20_000,
            "batch": 8,
            "lr": 2e-4,
            "episodes": 800,
        },
    }

    memories: Annotated[tuple[str, ...], MEMORY_NAMES, DISTINCT] = Field(
        tuple(CONTENDERS), min_length=1, description="who takes part: " + ", ".join(CONTENDERS)
    )
    symbols: int = Field(20, ge=2, description="different symbols")
    trained: Annotated[tuple[int, ...], DISTINCT] = Field(
        (512,), min_length=1, description="lengths of stream; each is a training of its own"
    )
    tested: tuple[int, ...] = Field(
        (128, 256, 512, 1024, 2048, 4096), min_length=2, description="lengths in the test"
    )
    layers: int = Field(2, ge=1, le=MOST_LAYERS, description="layers of every model")
    width: int = Field(64, ge=1, description="width of every model")
    heads: int = Field(4, ge=1, description="attention heads")
    mlp_ratio: int = Field(2, ge=1, description="width of the feed-forward layer, in widths")
    segment: int = Field(64, ge=1, description="tokens read at once, and written at once")
    carried: int = Field(64, ge=2, description="vectors a layer carries from segment to segment")
    recent: int = Field(0, ge=0, description="of these, tokens in the ∞-former's cache")
    contraction: float = Field(0.75, gt=0, lt=1, description="τ where it is fixed")
    rate: int = Field(4, ge=1, description="tokens the Compressive Transformer squeezes into one")
    steps: int = Field(450, ge=1, description="optimiser steps per model")
    batch: int = Field(16, ge=1, description="streams per step")
    lr: float = Field(3e-3, gt=0, description="highest learning rate")
    seeds: int = Field(3, ge=1, description="trainings per model and length")
    episodes: int = Field(64, ge=1, description="test streams per length")
    device: str = Field("auto", description="auto, cpu, cuda, mps")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if list(self.tested) != sorted(set(self.tested)) or self.tested[0] < 1:
            raise ValueError("tested must be increasing lengths of at least 1")
        unknown = [name for name in self.memories if name not in CONTENDERS]
        if unknown:
            hint = suggestion(unknown[0], CONTENDERS)
            raise ValueError(f"unknown contender {unknown[0]!r}; {hint}")
        if self.recent >= self.carried:
            raise ValueError(f"recent={self.recent} leaves nothing of carried={self.carried}")
        return self

    @property
    def window(self) -> int:
        """Tokens that attention over the cache takes in at the end of a whole segment."""
        return self.carried + self.segment

    def run(self, folder: Path, jobs: int) -> dict[str, Any]:
        """Train every model × length × seed and ask each after every length."""
        from mnemoscope.studies.sizes import count, state_bytes

        trials = {
            (name, length, seed): Trial(
                f"{name}-{length}-seed{seed}", self._config(name, length, seed)
            )
            for length in self.trained
            for seed in range(self.seeds)
            for name in self.memories
        }
        examine = partial(ask, lengths=self.tested, episodes=self.episodes, segment=self.segment)
        found = run_trials(list(trials.values()), folder / "runs", examine, jobs, "sorting")
        rows = [
            {"model": name, "trained": length, "seed": seed, "run": trial.name, **values}
            for ((name, length, seed), trial), values in zip(trials.items(), found, strict=True)
        ]
        first = self.trained[0]
        configs = {name: self._config(name, first, 0).model for name in self.memories}
        return {
            "trained": list(self.trained),
            "tested": list(self.tested),
            "segment": self.segment,
            "window": self.window,
            "symbols": self.symbols,
            "chance": chance(self.symbols),
            "oracles": {
                str(tokens): [self._oracle(length, tokens) for length in self.tested]
                for tokens in (self.window, max(self.tested))
            },
            "models": {
                name: {
                    "label": CONTENDERS[name][1],
                    "parameters": count(config),
                    "state_bytes": state_bytes(config, 4 * self.segment, self.segment),
                }
                for name, config in configs.items()
            },
            "trials": rows,
        }

    def _config(self, name: str, length: int, seed: int) -> RunConfig:
        task = Task.make(symbols=self.symbols, length=length)
        memory = CONTENDERS[name][0]
        model = find("memory", memory).make(
            vocab=task.vocab,
            layers=self.layers,
            width=self.width,
            heads=self.heads,
            mlp_ratio=self.mlp_ratio,
            **self._memory(name),
        )
        training = Training.make(
            steps=self.steps,
            batch=self.batch,
            lr=self.lr,
            seed=seed,
            segment=self.segment,
            evaluate_every=self.steps,
            checkpoint_every=max(200, self.steps // 5),
            keep=1,
            device=self.device,
        )
        return RunConfig("sorting", task, memory, model, training)

    def _memory(self, name: str) -> dict[str, Any]:
        """Options that give every model a state of ``carried`` vectors per layer."""
        if name == "xl":
            return {"mem_len": self.carried}
        if name == "compressive":
            cached = self.recent or self.carried // 2
            return {"mem_len": cached, "compressed_len": self.carried - cached, "rate": self.rate}
        # One write a segment: the cache then holds ``recent`` tokens at the end of every segment.
        signal: dict[str, Any] = {"mem_len": self.recent, "basis": self.carried - self.recent}
        signal |= {"chunk": self.segment}
        signal |= {"contraction": "equal" if name == "equal" else self.contraction}
        return signal | ({"sticky": True} if name == "sticky" else {})

    def _oracle(self, length: int, tokens: int) -> float:
        task = Task.make(symbols=self.symbols, length=length)
        return counting_oracle(task, tokens, 200)

    def tell(self, result: dict[str, Any], folder: Path) -> Sequence[Section]:
        """Say and draw what was seen."""
        from mnemoscope.studies.sorting import page as sorting_page

        return sorting_page.tell(result, folder / "runs")


def chance(symbols: int) -> float:
    """Accuracy of guessing among the symbols not named yet: (1 + ½ + … + 1/V) / V."""
    return sum(1 / left for left in range(1, symbols + 1)) / symbols


def counting_oracle(task: Task, tokens: int, episodes: int) -> float:
    """Teacher-forced accuracy of one who counts the last ``tokens`` tokens exactly.

    It knows which symbols were named already and names the most frequent of the others; of equals
    the one with the lower id, since counts do not tell which was seen first.
    """
    batch = task.batch(0, episodes, seed=REPORTING, split="valid")
    shown, answer = batch.tokens[:, : task.length], batch.targets[:, task.length :]
    right = 0
    for row in range(episodes):
        counts = np.bincount(shown[row, -tokens:], minlength=task.symbols).astype(float)
        for correct in answer[row]:
            right += int(counts.argmax() == correct)
            counts[correct] = -1
    return right / answer.size


def ask(folder: Path, lengths: Sequence[int], episodes: int, segment: int) -> dict[str, Any]:
    """Accuracy of a trained model at every length, teacher-forced and speaking freely."""
    from mnemoscope.training.evaluate import evaluate
    from mnemoscope.training.machine import join
    from mnemoscope.training.run import Run

    run = Run.open(folder)
    model = run.model().to(join(run.config.training.device).device)
    task = run.config.task
    if not isinstance(task, Task):
        raise UserError(f"{folder} is not a run of the task sorting")
    size = min(32, episodes)
    batches = math.ceil(episodes / size)
    forced, free = [], []
    for length in lengths:
        longer = Task.make(symbols=task.symbols, length=length)
        score = evaluate(model, longer, batches=batches, size=size, seed=REPORTING, segment=segment)
        forced.append(score.accuracy)
        free.append(speak(model, longer, batches, size, segment))
    return {
        "forced": forced,
        "free": free,
        "seconds": sum(entry.get("seconds", 0.0) for entry in run.metrics()),
    }


def speak(model: Any, task: Task, batches: int, size: int, segment: int) -> float:
    """Share of places right when the model reads its own answers instead of the true ones."""
    import torch

    from mnemoscope.models.generation import generate

    right, asked = 0, 0
    device = model.readout.weight.device
    for number in range(batches):
        batch = task.batch(number, size, seed=REPORTING, split="valid")
        prompt = torch.from_numpy(batch.tokens[:, : task.length + 1]).to(device)
        answer = torch.from_numpy(batch.targets[:, task.length :]).to(device)
        *before, last = torch.split(prompt, segment, 1)
        state = None
        with torch.no_grad():
            for part in before:
                state = model(part, state).state
        said = generate(model, last, task.symbols, state=state, temperature=0).tokens
        right += int((said == answer).sum())
        asked += answer.numel()
    return right / asked
