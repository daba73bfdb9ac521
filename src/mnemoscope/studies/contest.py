"""Patterns of a Sparse Transformer against each other at equal compute.

Compute is counted in floating-point operations of training: matrix products of all layers, and
the pairs that are looked at. A pattern with fewer pairs gets more steps for the same sum.

Nothing here imports torch before a contest runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from mnemoscope.core.config import DISTINCT
from mnemoscope.data.batch import Task
from mnemoscope.memories.config import MOST_LAYERS
from mnemoscope.memories.sparse.config import Sparse
from mnemoscope.studies.study import Study
from mnemoscope.studies.trials import Trial, run_trials
from mnemoscope.training.config import RunConfig, Training

# Points of a learning curve.
POINTS = 8


def step_flop(model: Sparse, length: int, batch: int) -> float:
    """Floating-point operations of one training step on ``batch`` rows of ``length`` tokens.

    Forward two for every weight and token, and 4·D for every pair and layer; backward twice that.
    """
    block = (4 + 2 * model.mlp_ratio) * model.width**2
    weights = model.layers * block + model.width * (model.outputs or model.vocab)
    pairs = sum(
        pattern.pairs(length) / len(groups) for groups in model.patterns for pattern in groups
    )
    return 3.0 * batch * (2 * weights * length + 4 * model.width * pairs)


class Contest(Study):
    """What the studies of sparse patterns have in common: who takes part, how big, how long."""

    source: str | None = Field(None, description="what to learn from; none = what is at hand")
    patterns: Annotated[tuple[str, ...], DISTINCT] = Field(
        ("dense", "strided", "fixed", "local"), min_length=1, description="which to compare"
    )
    summaries: int = Field(2, ge=1, description="last places of a block that later ones see")
    width: int = Field(64, ge=2, description="width of all models")
    layers: int = Field(4, ge=1, le=MOST_LAYERS, description="layers of all models")
    heads: int = Field(4, ge=1, description="heads of all models")
    dropout: float = Field(0.0, ge=0, lt=1, description="share of activations dropped in training")
    steps: int = Field(300, ge=1, description="optimiser steps of the first; others by compute")
    batch: int = Field(8, ge=1, description="episodes per step")
    learning_rates: Annotated[tuple[float, ...], DISTINCT] = Field(
        (5e-3, 1e-2, 2e-2), min_length=1, description="tried with the first seed of every pattern"
    )
    warmup: int = Field(50, ge=0, description="steps over which the learning rate rises")
    seeds: int = Field(3, ge=1, description="trainings per pattern")
    device: str = Field("auto", description="auto, cpu, cuda, mps")

    def contestants(self, vocab: int, stride: int, **options: Any) -> dict[str, Sparse]:
        """One model for every pattern, alike in everything else."""
        shared = {name: getattr(self, name) for name in ("width", "layers", "heads", "dropout")}
        shared |= {"vocab": vocab, "stride": stride, "summaries": self.summaries, **options}
        return {name: Sparse.make(pattern=name, **shared) for name in self.patterns}

    def compete(
        self,
        task_name: str,
        task: Task,
        models: dict[str, Sparse],
        held_out: int,
        folder: Path,
        jobs: int,
        examine: Callable[[Path], dict[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """Train every model with every seed for as much compute as the first gets in its steps.

        The first seed tries all learning rates, the others take each model's best. ``held_out``
        episodes are looked at ``POINTS`` times while a model learns, and at the end.
        """
        assert task.longest is not None
        first = next(iter(models.values()))
        budget = self.steps * step_flop(first, task.longest, self.batch)
        facts: dict[str, dict[str, Any]] = {
            name: {
                "flop": flop,
                "steps": round(budget / flop),
                "pairs": _pairs(model, task.longest),
            }
            for name, model in models.items()
            for flop in [step_flop(model, task.longest, self.batch)]
        }

        def trial(name: str, rate: float, seed: int) -> Trial:
            steps = facts[name]["steps"]
            training = Training.make(
                steps=steps,
                lr=rate,
                seed=seed,
                batch=self.batch,
                warmup=self.warmup,
                device=self.device,
                evaluate_every=max(1, steps // POINTS),
                evaluate_batches=math.ceil(held_out / min(self.batch, 64)),
                checkpoint_every=max(200, steps // 3),
                keep=1,
            )
            config = RunConfig(task_name, task, "sparse", models[name], training)
            return Trial(f"{name}-lr{rate:g}-seed{seed}", config)

        def train(chosen: list[tuple[str, float, int]]) -> list[dict[str, Any]]:
            trials = [trial(*one) for one in chosen]
            found = run_trials(trials, folder / "runs", examine or curve, jobs, folder.name)
            return [
                {"model": name, "lr": rate, "seed": seed, "run": one.name, **values}
                for (name, rate, seed), one, values in zip(chosen, trials, found, strict=True)
            ]

        sweep = train([(name, rate, 0) for name in models for rate in self.learning_rates])
        for name in models:
            tried = [row for row in sweep if row["model"] == name]
            facts[name]["lr"] = min(tried, key=last_bits)["lr"]
        best = [row for row in sweep if row["lr"] == facts[row["model"]]["lr"]]
        rest = train(
            [(name, facts[name]["lr"], seed) for name in models for seed in range(1, self.seeds)]
        )
        lengths = [task.longest // 4, task.longest]
        tries = [
            {key: row[key] for key in ("model", "lr")} | {"bits": last_bits(row)} for row in sweep
        ]
        return {
            "length": task.longest,
            "models": facts,
            "trials": sorted(
                best + rest, key=lambda row: (list(models).index(row["model"]), row["seed"])
            ),
            "sweep": [{**row, "bits": None} if math.isinf(row["bits"]) else row for row in tries],
            "seeds": self.seeds,
            "state_lengths": lengths,
            "state_bytes": carried(models, lengths),
        }


def last_bits(row: dict[str, Any]) -> float:
    """Held-out bits of a trial at the end of training; ∞ where it diverged."""
    return float(row["bits"][-1]) if "bits" in row else math.inf


def _pairs(model: Sparse, length: int) -> float:
    """Mean number of tokens that a token looks at, over layers and heads."""
    layers = [sum(p.pairs(length) for p in groups) / len(groups) for groups in model.patterns]
    return sum(layers) / len(layers) / length


def curve(folder: Path) -> dict[str, Any]:
    """The held-out loss of a run in bits, against steps; and how long it took."""
    from mnemoscope.training.run import Run

    entries = Run.open(folder).metrics()
    looks = [entry for entry in entries if "valid_loss" in entry]
    return {
        "steps": [entry["step"] for entry in looks],
        "bits": [entry["valid_loss"] / math.log(2) for entry in looks],
        "seconds": sum(entry.get("seconds", 0.0) for entry in entries),
    }


def carried(models: dict[str, Sparse], lengths: Sequence[int]) -> dict[str, list[int]]:
    """Measured bytes of state of one stream after so many tokens, for every model."""
    from mnemoscope.studies.sizes import state_bytes

    return {
        name: [state_bytes(model, length) for length in lengths] for name, model in models.items()
    }
