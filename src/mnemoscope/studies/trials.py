"""Many small trainings side by side, each in a process and a folder of its own.

Where they run is up to an engine, see `engines`; what they leave are files in their folders.

A trial that was finished is not run again, one that was cut off is resumed: a study can be
stopped at any moment and started again with the same command. What lies in a trial's folder is
believed only when it is of this very trial; see `answers`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mnemoscope.core.aliases import formerly
from mnemoscope.core.data import from_plain
from mnemoscope.core.errors import InterruptedRunError, UserError
from mnemoscope.core.progress import progress
from mnemoscope.core.trust import trusted
from mnemoscope.studies.answers import (
    Answer,
    answered,
    asked,
    config_digest,
    file_digest,
    known,
    say_again,
)
from mnemoscope.studies.aside import is_of, put_aside
from mnemoscope.studies.engines.claims import FOLDER
from mnemoscope.studies.engines.engine import Claiming, Crashed, current, outcomes
from mnemoscope.studies.notices import missing
from mnemoscope.studies.study import Diverged
from mnemoscope.training.config import RunConfig, Training

if TYPE_CHECKING:
    from mnemoscope.training.run import Run


T = TypeVar("T")


@dataclass(frozen=True)
class Trial:
    """A run with a name, which is also the name of its folder.

    start     makes the model that it begins with; by default a fresh one, drawn from its seed
    moments   steps after which its weights are kept until they were looked at
    """

    name: str
    config: RunConfig
    start: Callable[[], Any] | None = None
    moments: tuple[int, ...] = ()


def training_of(study: Any, **options: Any) -> Training:
    """How a trial of a study trains: evaluated at its end, with one checkpoint to continue from.

    ``study`` has options steps, batch, device and precision; ``options`` are the others, or
    instead of these.
    """
    asked = ("steps", "batch", "device", "precision")
    settings = {name: getattr(study, name) for name in asked}
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
    later: Sequence[Trial] | None = (),
) -> list[T | Diverged]:
    """Train all trials, ``jobs`` at a time, and return what ``examine`` says of each, in order.

    ``examine`` looks at a finished run's folder and returns a dataclass of this ``kind``.
    ``tell`` is told of each as it is finished, in the order in which they are. How long they will
    take is said first, together with those that come ``later``; None: it was said before.
    """
    _check(trials, folder)
    if later is not None:
        left = [trial.config for trial in _left(trials, later, folder)]
        current().announce(label, left, jobs)
    outcome: Any = kind | Diverged
    calls = {trial.name: partial(_run, trial, folder, examine, outcome) for trial in trials}
    found, crashed = _side_by_side(
        calls,
        folder,
        jobs,
        label,
        lambda name, values: tell(name, from_plain(outcome, values)),
        lambda name, lines: tell(name, Diverged(_gave_up(lines))),
    )
    say_again("examined", len(trials), {name: kept.again for name, kept in found.items()})
    for name, lines in crashed.items():
        missing(f"The trial {name} crashed again and again, and is left out.", lines)
    return [
        from_plain(outcome, found[one.name].values)
        if one.name in found
        else Diverged(_gave_up(crashed[one.name]))
        for one in trials
    ]


def _gave_up(lines: Sequence[str]) -> str:
    """What stands in the place of a trial that crashed too often."""
    return f"crashed, and left out: {lines[-1]}"


def sweep_then_seeds(
    names: Sequence[str],
    rates: Sequence[float],
    seeds: int,
    trial: Callable[[str, float, int], Trial],
    train: Callable[[list[Trial], list[Trial] | None], Sequence[T]],
    loss: Callable[[T], float],
) -> tuple[dict[tuple[str, float, int], T], dict[str, float]]:
    """Train all at every rate with the first seed, then each at its best one with the others.

    ``train`` is `run_trials` of some trials and those that come later; the rate with the lowest
    ``loss`` is the best. Returns what was seen by name, rate and seed, and the best rates.
    """

    def trained(keys: Sequence[tuple[str, float, int]], later: list[Trial] | None) -> Any:
        return dict(zip(keys, train([trial(*key) for key in keys], later), strict=True))

    rest = [(name, seed) for name in names for seed in range(1, seeds)]
    sweep = [(name, rate, 0) for name in names for rate in rates]
    seen = trained(sweep, [trial(name, rates[0], seed) for name, seed in rest])
    best = {name: min(rates, key=lambda rate: loss(seen[name, rate, 0])) for name in names}
    return seen | trained([(name, best[name], seed) for name, seed in rest], None), best


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


def _left(trials: Sequence[Trial], later: Sequence[Trial], folder: Path) -> list[Trial]:
    """Trials that are not done; those that come later may get another rate, and so another name."""
    done = {path.parent for path in folder.glob("*/examined.json")}
    left = [trial for trial in trials if home_of(folder, trial.name) not in done]
    return [*left, *later[max(0, len(done) - (len(trials) - len(left))) :]]


def home_of(folder: Path, name: str) -> Path:
    """The folder of a trial, also where it has the name that it had in an older version."""
    names = (folder / one for one in [name, *formerly(name)])
    return next((home for home in names if home.is_dir()), folder / name)


def finished(home: Path) -> bool:
    """Whether a trial's folder holds a model to look at: one that diverged does not."""
    return (home / "model.safetensors").is_file()


def _run(
    trial: Trial, folder: Path, examine: Callable[[Path], Any], kind: Any, claiming: Claiming
) -> Answer:
    from mnemoscope.training.loop import DivergedError, resume, train
    from mnemoscope.training.run import Run

    home = home_of(folder, trial.name)
    answer = home / "examined.json"

    def identity() -> dict[str, Any]:
        return {
            "config": config_digest(home / "config.yaml"),
            "model": file_digest(home / "model.safetensors"),
            "asked": asked(examine),
        }

    def compute() -> Any:
        try:
            how: dict[str, Any] = {"silent": True, "moments": trial.moments}
            if (home / "config.yaml").is_file():
                run = resume(home, **how)
            else:
                begun = None if trial.start is None else trial.start()
                run = train(trial.config, home, begun, **how)
            _check_log(run)
            return examine(run.folder)
        except DivergedError as error:
            return Diverged(str(error))
        except InterruptedRunError:
            raise
        except UserError as error:
            raise UserError(
                f"the trial {home} cannot continue: {error}. If it is damaged, delete that folder: "
                "the trial is trained again"
            ) from error

    # Also of a trial that is finished: a study of two texts would answer for neither.
    def check_text() -> None:
        Run(home, trial.config).check_text()

    # What is done needs no claim, whoever did it.
    if is_of(home, trial.config):
        check_text()
        kept, _ = known(answer, identity(), kind)
        if kept is not None:
            return kept
    with claiming():
        moved = put_aside(home, trial.config, folder / "put-aside")
        check_text()
        return answered(answer, identity, compute, kind, "aside" if moved else "")


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
    calls = {name: partial(_measure, name, measure, folder, kind) for name in names}
    found, crashed = _side_by_side(calls, folder, jobs, label)
    for name, lines in crashed.items():
        raise UserError(
            f"measuring {name} crashed again and again: {lines[-1]}. What was measured of others "
            "is kept; the same command tries again"
        )
    say_again("measured", len(names), {name: kept.again for name, kept in found.items()})
    return {name: from_plain(kind, found[name].values) for name in names}


def _measure(
    name: str, measure: Callable[[str], Any], folder: Path, kind: type, claiming: Claiming
) -> Answer:
    path = folder / f"{name.replace(' ', '-')}.json"
    identity = {"name": name, "asked": asked(measure)}
    kept, _ = known(path, identity, kind)
    if kept is not None:
        return kept
    with claiming():
        return answered(path, lambda: identity, partial(measure, name), kind)


def _side_by_side(
    calls: Mapping[str, Callable[[Claiming], Answer]],
    folder: Path,
    jobs: int,
    label: str,
    tell: Callable[[str, dict[str, Any]], None] = lambda name, values: None,
    tell_crash: Callable[[str, tuple[str, ...]], None] = lambda name, lines: None,
) -> tuple[dict[str, Answer], dict[str, tuple[str, ...]]]:
    """Call all, ``jobs`` at a time; returns what they answered, and last lines of those that crash.

    If all of them crash, there is nothing to continue with: `UserError`.
    """
    found: dict[str, Answer] = {}
    crashed: dict[str, tuple[str, ...]] = {}
    with progress(label, len(calls)) as show:

        def say(words: str) -> None:
            show(len(found) + len(crashed), words)

        own = time.process_time()
        for name, outcome in outcomes(calls, folder / FOLDER, trusted(), jobs, say):
            if isinstance(outcome, Crashed):
                crashed[name] = outcome.lines
                tell_crash(name, outcome.lines)
            else:
                found[name] = outcome
                # What a single job has done in this process counts already.
                own, before = time.process_time(), own
                _spent.set(_spent.get() + max(0.0, outcome.cpu - (own - before)))
                tell(name, outcome.values)
            say(name)
    if crashed and not found:
        name, lines = next(iter(crashed.items()))
        said = "\n".join(lines)
        raise UserError(f"all {len(crashed)} trials crashed; {name} ended with:\n{said}")
    return found, crashed


# CPU seconds of all trials that were asked for, also of those that were finished before.
_spent: ContextVar[float] = ContextVar("spent", default=0.0)


def cpu_seconds() -> float:
    """CPU time of this process and of all trials that it had trained or found trained."""
    return time.process_time() + _spent.get()
