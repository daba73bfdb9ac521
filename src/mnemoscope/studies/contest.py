"""Patterns of a Sparse Transformer against each other at equal compute.

Compute is counted in floating-point operations of training: matrix products of all layers, and
the pairs that are looked at. A pattern with fewer pairs gets more steps for the same sum.

Nothing here imports torch before a contest runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mnemoscope.data.batch import Task
from mnemoscope.models.config import Sparse
from mnemoscope.registry import find
from mnemoscope.studies.trials import Trial, run_trials
from mnemoscope.training.config import RunConfig, Training

# Points of a learning curve.
POINTS = 8


def step_flop(model: Sparse, length: int, batch: int) -> float:
    """Floating-point operations of one training step on ``batch`` rows of ``length`` tokens.

    Forward two for every weight and token, and 4·D for every pair and layer; backward twice that.
    """
    block = (4 + 2 * model.hidden) * model.width**2
    weights = model.layers * block + model.width * (model.outputs or model.vocab)
    pairs = sum(
        pattern.pairs(length) / len(groups) for groups in model.patterns for pattern in groups
    )
    return 3.0 * batch * (2 * weights * length + 4 * model.width * pairs)


def compete(
    task_name: str,
    options: dict[str, Any],
    models: dict[str, Sparse],
    settings: dict[str, Any],
    seeds: int,
    held_out: int,
    folder: Path,
    jobs: int,
    examine: Callable[[Path], dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Train every model with every seed for as much compute as the first gets in its steps.

    ``held_out`` episodes are looked at ``POINTS`` times while a model learns, and at the end.
    """
    task: Task = find("task", task_name).make(**options)
    assert task.longest is not None
    first = next(iter(models.values()))
    batch = int(settings["batch"])
    budget = int(settings["steps"]) * step_flop(first, task.longest, batch)
    facts, trials = {}, {}
    for name, model in models.items():
        flop = step_flop(model, task.longest, batch)
        steps = round(budget / flop)
        per_look = min(batch, 64)
        training = Training.make(
            **{**settings, "steps": steps},
            evaluate_every=max(1, steps // POINTS),
            evaluate_batches=math.ceil(held_out / per_look),
            checkpoint_every=max(200, steps // 3),
            keep=1,
        )
        facts[name] = {
            "pattern": model.pattern,
            "steps": steps,
            "flop": flop,
            "pairs": _pairs(model, task.longest),
        }
        for seed in range(seeds):
            config = training.model_copy(update={"seed": seed})
            run = RunConfig(task_name, task, "sparse", model, config)
            trials[name, seed] = Trial(f"{name}-seed{seed}", run)
    found = run_trials(list(trials.values()), folder / "runs", examine or curve, jobs, folder.name)
    rows = [
        {"model": name, "seed": seed, "run": trial.name, **values}
        for ((name, seed), trial), values in zip(trials.items(), found, strict=True)
    ]
    return {"length": task.longest, "models": facts, "trials": rows, "seeds": seeds}


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
