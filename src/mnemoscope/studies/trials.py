"""Many small trainings side by side, each in a process and a folder of its own.

A trial that was finished is not run again, one that was cut off is resumed: a study can be
stopped at any moment and started again with the same command. What lies in a trial's folder is
believed only when it is of this very trial; see `answers`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mnemoscope.core.aliases import formerly
from mnemoscope.core.data import from_plain, to_plain
from mnemoscope.core.errors import InterruptedRunError, UserError
from mnemoscope.core.interrupts import postponed
from mnemoscope.core.progress import progress
from mnemoscope.core.trust import trusted, trusting
from mnemoscope.studies.answers import (
    Answer,
    asked,
    config_digest,
    file_digest,
    keep,
    recall,
    say_again,
)
from mnemoscope.studies.aside import put_aside
from mnemoscope.studies.study import Diverged
from mnemoscope.training.config import RunConfig, Training

if TYPE_CHECKING:
    from mnemoscope.training.run import Run


T = TypeVar("T")


@dataclass(frozen=True)
class Trial:
    """A run with a name, which is also the name of its folder."""

    name: str
    config: RunConfig


def training_of(study: Any, **options: Any) -> Training:
    """How a trial of a study trains: evaluated at its end, with one checkpoint to go on from.

    ``study`` has options steps, batch and device; ``options`` are the others, or instead of these.
    """
    settings = {"steps": study.steps, "batch": study.batch, "device": study.device}
    settings |= {"evaluate_every": study.steps, "checkpoint_every": max(200, study.steps // 5)}
    return Training.make(**{**settings, "keep": 1, **options})


def run_trials(
    trials: Sequence[Trial],
    folder: Path,
    examine: Callable[[Path], T],
    jobs: int,
    label: str,
    tell: Callable[[str, T | Diverged], None] = lambda name, values: None,
    *,
    kind: type[T],
) -> list[T | Diverged]:
    """Train all trials, ``jobs`` at a time, and return what ``examine`` says of each, in order.

    ``examine`` looks at a finished run's folder and returns a dataclass of this ``kind``.
    ``tell`` is told of each as it is finished, in the order in which they are.
    """
    _check(trials, folder)
    calls = {trial.name: (_run, trial, folder, examine, kind) for trial in trials}
    found = _side_by_side(
        calls, jobs, label, lambda name, values: tell(name, _examined(kind, values))
    )
    say_again("examined", len(trials), {name: kept.again for name, kept in found.items()})
    return [_examined(kind, found[trial.name].values) for trial in trials]


def _examined(kind: type[T], values: dict[str, Any]) -> T | Diverged:
    if set(values) == {"diverged"}:
        return from_plain(Diverged, values)
    return from_plain(kind, values)


def _check(trials: Sequence[Trial], folder: Path) -> None:
    """Refuse what cannot be trained before anything is: hours later is too late."""
    names = [trial.name for trial in trials]
    for name in names:
        if names.count(name) > 1:
            raise UserError(
                f"two trials are called {name!r}: something is named twice, or two numbers differ "
                "too little to be told apart"
            )
    for trial in trials:
        if not (home_of(folder, trial.name) / "config.yaml").is_file():
            trial.config.check()


def home_of(folder: Path, name: str) -> Path:
    """The folder of a trial, also where it has the name that it had in an older version."""
    names = (folder / one for one in [name, *formerly(name)])
    return next((home for home in names if home.is_dir()), folder / name)


def finished(home: Path) -> bool:
    """Whether a trial's folder holds a model to look at: one that diverged does not."""
    return (home / "model.safetensors").is_file()


def _run(trial: Trial, folder: Path, examine: Callable[[Path], Any], kind: type) -> Answer:
    from mnemoscope.training.loop import DivergedError, resume, train
    from mnemoscope.training.run import Run

    home = home_of(folder, trial.name)
    moved = put_aside(home, trial.config, folder / "put-aside")
    # Also of a trial that is finished: a study of two texts would answer for neither.
    Run(home, trial.config).check_text()

    def identity() -> dict[str, Any]:
        return {
            "config": config_digest(home / "config.yaml"),
            "model": file_digest(home / "model.safetensors"),
            "asked": asked(examine),
        }

    kept, why = recall(home / "examined.json", identity())
    if kept is not None:
        if _reads(kind, kept):
            return kept
        why = "older"
    began = time.process_time()
    try:
        begun = (home / "config.yaml").is_file()
        run = resume(home, silent=True) if begun else train(trial.config, home, silent=True)
        _check_log(run)
        values = to_plain(examine(run.folder))
    except DivergedError as error:
        values = {"diverged": str(error)}
    except InterruptedRunError:
        raise
    except UserError as error:
        raise UserError(
            f"the trial {home} cannot go on: {error}. If it is damaged, delete that folder: the "
            "trial is trained again"
        ) from error
    return keep(home / "examined.json", identity(), values, "aside" if moved else why, began)


def _check_log(run: Run) -> None:
    """Refuse a log that lacks looks at held-out data: curves and choices are made from them."""
    settings = run.config.training
    wanted = {
        settings.steps,
        *range(settings.evaluate_every, settings.steps, settings.evaluate_every),
    }
    lost = wanted - set(run.valid_losses)
    if lost:
        raise UserError(
            f"{run.folder / 'metrics.jsonl'} is damaged: nothing is said of step {min(lost)}"
        )


def measure_all(
    names: Sequence[str],
    measure: Callable[[str], T],
    folder: Path,
    jobs: int,
    label: str,
    *,
    kind: type[T],
) -> dict[str, T]:
    """Measure every name, ``jobs`` at a time, and keep each answer in a file of its own.

    ``measure`` trains and measures what a name stands for and returns a dataclass of this
    ``kind``. For trainings of a few seconds, not worth a run folder and checkpoints.
    """
    calls = {name: (_measure, name, measure, folder, kind) for name in names}
    found = _side_by_side(calls, jobs, label, lambda name, values: None)
    say_again("measured", len(names), {name: kept.again for name, kept in found.items()})
    return {name: from_plain(kind, found[name].values) for name in names}


def _measure(name: str, measure: Callable[[str], Any], folder: Path, kind: type) -> Answer:
    path = folder / f"{name.replace(' ', '-')}.json"
    identity = {"name": name, "asked": asked(measure)}
    kept, why = recall(path, identity)
    if kept is not None:
        if _reads(kind, kept):
            return kept
        why = "older"
    began = time.process_time()
    return keep(path, identity, to_plain(measure(name)), why, began)


def _reads(kind: type, kept: Answer) -> bool:
    """Whether what was kept is what this version asks for; an older one may have kept less."""
    try:
        _examined(kind, kept.values)
    except UserError:
        return False
    return True


def _side_by_side(
    calls: dict[str, tuple[Any, ...]],
    jobs: int,
    label: str,
    tell: Callable[[str, dict[str, Any]], None],
) -> dict[str, Answer]:
    """Call all, ``jobs`` processes at a time; each call is a function and what it is given."""
    import joblib

    # One thread each: two processes with one thread do more small steps than one with two.
    pool = joblib.Parallel(
        n_jobs=jobs, return_as="generator_unordered", inner_max_num_threads=1, backend="loky"
    )
    found: dict[str, Answer] = {}
    with progress(label, len(calls)) as show:
        owner = os.getpid(), trusted()
        work = (joblib.delayed(_call)(name, *owner, *call) for name, call in calls.items())
        # Processes start here; Ctrl-C is for their owner, which ends them. The one that tidies up
        # after them need not tell of it.
        with postponed(), _in_environment("PYTHONWARNINGS", "ignore:resource_tracker:UserWarning"):
            answers = pool(work)
        for name, kept in answers:
            found[name] = kept
            _spent.set(_spent.get() + kept.cpu)
            tell(name, kept.values)
            show(len(found), name)
    return found


# CPU seconds of all trials that were asked for, also of those that were finished before.
_spent: ContextVar[float] = ContextVar("spent", default=0.0)


def cpu_seconds() -> float:
    """CPU time of this process and of all trials that it had trained or found trained."""
    return time.process_time() + _spent.get()


@contextmanager
def _in_environment(name: str, value: str) -> Iterator[None]:
    """Let processes that are started meanwhile find a value in their environment."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _call(
    name: str, owner: int, modules: tuple[str, ...], call: Callable[..., Answer], *given: Any
) -> tuple[str, Answer]:
    if os.getpid() != owner:
        _settle(owner)
    with trusting(modules):
        return name, call(*given)


@cache
def _settle(owner: int) -> None:
    """Make a worker process one that computes on one thread and ends with its owner."""
    import torch

    torch.set_num_threads(1)
    # Networks that fail to learn fill up with denormal numbers, which cost twice the time.
    torch.set_flush_denormal(True)

    def end_with_owner() -> None:
        while os.getppid() == owner:
            time.sleep(0.2)
        os._exit(1)  # at any moment: the trial goes on from its last checkpoint

    threading.Thread(target=end_with_owner, daemon=True).start()
