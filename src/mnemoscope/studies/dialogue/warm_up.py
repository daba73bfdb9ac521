"""Before conversations, running text: models learn a language from it, and begin with that.

Floor and ceiling are one model and share theirs. Imports no torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mnemoscope.core.errors import UserError
from mnemoscope.memories.config import ModelConfig
from mnemoscope.studies.dialogue.contestants import CEILING, FLOOR
from mnemoscope.studies.dialogue.result import Warmed
from mnemoscope.studies.study import Diverged
from mnemoscope.studies.trials import Trial, home_of, run_trials, training_of
from mnemoscope.training.config import RunConfig

if TYPE_CHECKING:
    from mnemoscope.studies.dialogue.study import DialogueStudy


def warm_trial(study: DialogueStudy, name: str, model: ModelConfig, seed: int) -> Trial:
    """The reading of running text that a training begins with: pieces, window by window."""
    task = study.task().model_copy(update={"piece": study.piece, "texts": study.texts})
    whole = name in (FLOOR, CEILING)
    cut: dict[str, Any] = {}
    if not whole:
        back = math.ceil(study.piece / study.window)
        cut = {"segment": study.window, "tbptt": study.tbptt or back}
    training = training_of(
        study,
        lr=study.warm_rate,
        seed=seed,
        steps=study.warm_steps,
        warmup=min(study.warmup, study.warm_steps),
        evaluate_every=study.warm_steps,
        evaluate_batches=8,
        **cut,
    )
    home = "full" if whole else name.replace(":", ".")
    config = RunConfig("dialogue", task, study.memory(name)[0], model, training)
    return Trial(f"warm-{home}-seed{seed}", config)


def warm_up(
    study: DialogueStudy,
    names: Sequence[str],
    configs: dict[str, ModelConfig],
    runs: Path,
    jobs: int,
) -> dict[str, Warmed]:
    """Let all models read running text, with every seed; by the names of their runs."""
    found = [
        warm_trial(study, name, configs[name], seed)
        for name in names
        for seed in range(study.seeds)
    ]
    trials = list({one.name: one for one in found}.values())
    read = run_trials(trials, runs, warmed, jobs, "dialogue, running text", kind=Warmed)
    for trial, one in zip(trials, read, strict=True):
        if isinstance(one, Diverged):
            raise UserError(
                f"{trial.name} came to nothing ({one.diverged}): lower warm_rate, or set "
                "warm_steps to 0"
            )
    return {
        trial.name: one for trial, one in zip(trials, read, strict=True) if isinstance(one, Warmed)
    }


def warmed(folder: Path) -> Warmed:
    """What came of reading running text."""
    from mnemoscope.training.run import Run

    run = Run.open(folder)
    return Warmed(run.valid_loss, run.seconds)


def starting(
    study: DialogueStudy, name: str, model: ModelConfig, seed: int, runs: Path
) -> partial[Any]:
    """What makes the model that a training begins with."""
    return partial(_weights_of, home_of(runs, warm_trial(study, name, model, seed).name))


def _weights_of(folder: Path) -> Any:
    from mnemoscope.training.run import Run

    return Run.open(folder).model()
