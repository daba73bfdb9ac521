"""Patterns of a Sparse Transformer against each other at equal compute.

Compute is counted in floating-point operations of training: matrix products of all layers, and
the pairs that are looked at. A pattern with fewer pairs gets more steps for the same sum.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from mnemoscope.core.config import DISTINCT, MOST_LAYERS
from mnemoscope.data.batch import Task
from mnemoscope.memories.sparse.config import Sparse
from mnemoscope.studies.contest.result import Contestant, ContestResult, Curve, Training
from mnemoscope.studies.study import Device, Diverged, Study, TrainPrecision
from mnemoscope.studies.trials import Trial, home_of, run_trials, sweep_then_seeds, training_of
from mnemoscope.training.config import RunConfig

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

    device: Device = "auto"
    precision: TrainPrecision = "auto"
    source: str | None = Field(None, description="what to learn from; none = what is at hand")
    patterns: Annotated[tuple[str, ...], DISTINCT] = Field(
        ("dense", "strided", "fixed", "local"), min_length=1, description="which to compare"
    )
    summaries: int = Field(2, ge=1, description="last positions of a block that later ones see")
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
    held_out: int = Field(64, ge=1, description="episodes that learning rates are chosen by")
    tested: int = Field(256, ge=1, description="other episodes, whose bits are reported")

    def contestants(self, vocab: int, stride: int, **options: Any) -> dict[str, Sparse]:
        """One model for every pattern, alike in everything else."""
        shared = self.some("width", "layers", "heads", "dropout", "summaries")
        shared |= {"vocab": vocab, "stride": stride, **options}
        return {name: Sparse.make(pattern=name, **shared) for name in self.patterns}

    def compete(
        self,
        task_name: str,
        task: Task,
        models: dict[str, Sparse],
        folder: Path,
        jobs: int,
    ) -> tuple[ContestResult, dict[str, Path]]:
        """Train every model with every seed for as much compute as the first gets in its steps.

        The first seed tries all learning rates, the others take each model's best. Held-out
        episodes are scored ``POINTS`` times while a model learns, and at the end: rates are chosen
        by them. Those of the test are scored once. Returns the result, and by model the folder of
        its first seed, if that did not diverge.
        """
        from mnemoscope.studies.contest.measure import curve
        from mnemoscope.studies.sizes import state_bytes

        assert task.longest is not None
        length, first = task.longest, next(iter(models.values()))
        budget = self.steps * step_flop(first, length, self.batch)
        flop = {name: step_flop(model, length, self.batch) for name, model in models.items()}
        steps = {name: round(budget / one) for name, one in flop.items()}

        def trial(name: str, rate: float, seed: int) -> Trial:
            training = training_of(
                self,
                steps=steps[name],
                lr=rate,
                seed=seed,
                warmup=self.warmup,
                evaluate_every=max(1, steps[name] // POINTS),
                evaluate_batches=math.ceil(self.held_out / min(self.batch, 64)),
                checkpoint_every=max(200, steps[name] // 3),
            )
            config = RunConfig(task_name, task, "sparse", models[name], training)
            return Trial(f"{name}-lr{rate:g}-seed{seed}", config)

        def train(trials: list[Trial], later: list[Trial] | None) -> list[Curve | Diverged]:
            runs, examine = folder / "runs", partial(curve, tested=self.tested)
            return run_trials(trials, runs, examine, jobs, folder.name, kind=Curve, later=later)

        def held_out(seen: Curve | Diverged) -> float:
            return math.inf if isinstance(seen, Diverged) else seen.bits[-1]

        tried = self.learning_rates, self.seeds
        seen, best = sweep_then_seeds(list(models), *tried, trial, train, held_out)
        trainings = [_training(*key, one) for key, one in seen.items()]
        lengths = (length // 4, length)
        result = ContestResult(
            length,
            first.stride,
            self.summaries,
            self.seeds,
            {
                name: Contestant(
                    flop[name],
                    steps[name],
                    _pairs(model, length),
                    best[name],
                    tuple(state_bytes(model, tokens) for tokens in lengths),
                )
                for name, model in models.items()
            },
            tuple(
                one
                for name in models
                for one in trainings
                if (one.model, one.lr) == (name, best[name])
            ),
            tuple(one for one in trainings if one.seed == 0),
            lengths,
            {},
        )
        firsts = {
            name: home_of(folder / "runs", trial(name, rate, 0).name)
            for name, rate in best.items()
            if isinstance(seen[name, rate, 0], Curve)
        }
        return result, firsts


def _training(model: str, lr: float, seed: int, seen: Curve | Diverged) -> Training:
    if isinstance(seen, Diverged):
        return Training(model, lr, seed, None, seen.diverged)
    return Training(model, lr, seed, seen)


def _pairs(model: Sparse, length: int) -> float:
    """Mean number of tokens that a token attends to, over layers and heads."""
    layers = [sum(p.pairs(length) for p in groups) / len(groups) for groups in model.patterns]
    return sum(layers) / len(layers) / length
