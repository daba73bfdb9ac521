"""What every engine is: it takes tasks and gives back what became of each, in any order.

Whatever an engine does, a task is claimed by the process that works on it (`claims`), so that no
two do the same, wherever they are; a task that another process works on is waited for, one whose
process died is tried again.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import traceback
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from mnemoscope.core.config import Config
from mnemoscope.core.errors import InterruptedRunError, UserError, suggestion
from mnemoscope.core.files import unlocked
from mnemoscope.core.registry import load
from mnemoscope.core.trust import trusting
from mnemoscope.studies.answers import Answer
from mnemoscope.studies.engines.claims import BEATS, PATIENCE, Claim, ClaimedError, Holder, Watch
from mnemoscope.studies.estimate import announce
from mnemoscope.training.config import RunConfig

ENGINES = {
    "local": "mnemoscope.studies.engines.local:Local",
    "shared": "mnemoscope.studies.engines.shared:Shared",
    "ray": "mnemoscope.studies.engines.ray:Ray",
    "slurm": "mnemoscope.studies.engines.slurm:Slurm",
}
# Of what a crash says, the page shows the end.
LAST_LINES = 8
# Seconds between the first two looks at what others are at work on; later ones are further apart.
LOOK_AGAIN = 0.2

# Gives the claim under which a task computes; entered, it is held.
Claiming = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Claimed:
    """Another process works on it."""

    holder: Holder


@dataclass(frozen=True)
class Crashed:
    """It ended in a way that nobody asked for: the last lines it left."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Refused:
    """It cannot be done as things are, and the message says what to do about it."""

    message: str


Outcome = Answer | Claimed | Crashed | Refused


@dataclass(frozen=True)
class Task:
    """One thing to compute, and all that a process needs for it, on whichever machine it is.

    ``owner`` is the process that its worker ends with, None where an engine looks after workers.
    Files are locked where ``locks`` says so; claimed they are anywhere. ``stale`` is the number of
    a claim on it that was found to be nobody's any more. One that has ``crashed`` before should be
    given a process of its own. ``place`` is the folder that relative paths begin at.
    """

    name: str
    claims: Path
    call: Callable[[Claiming], Answer]
    modules: tuple[str, ...]
    engine: str
    patience: float
    owner: int | None
    locks: bool
    place: Path
    stale: int = 0
    crashed: bool = False

    def __call__(self) -> tuple[str, Outcome]:
        """Compute it in this process, unless somebody else does."""
        alone = self.owner is not None
        worker = self.owner != os.getpid()
        if worker:
            _settle(self.owner)
        with trusting(self.modules), nullcontext() if self.locks else unlocked():
            try:
                if worker:
                    _enter(self.place)
                return self.name, self.call(self._claim)
            except ClaimedError as other:
                return self.name, Claimed(other.holder)
            except InterruptedRunError as error:
                if alone:
                    raise
                return self.name, Crashed((f"it was stopped: {error}",))
            except UserError as error:
                if alone:
                    raise
                return self.name, Refused(str(error))
            # Whatever a trial raises is its own crash, and no reason to lose the others.
            except Exception:
                return self.name, Crashed(last_lines(traceback.format_exc()))

    def _claim(self) -> Claim:
        holder = Holder.here(self.patience, self.engine)
        return Claim(self.claims, self.name, holder, self.stale)


def last_lines(text: str) -> tuple[str, ...]:
    """The end of what a crash says, without the marks below a line of code."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip(" ^~")]
    return tuple(lines[-LAST_LINES:]) or ("it said nothing",)


class Engine(Config):
    """Where trials are computed, and how."""

    name: ClassVar[str]
    # Whether its workers are on other machines, or may go on when this process has ended.
    remote: ClassVar[bool] = False
    # Whether several processes may work on one folder.
    shares: ClassVar[bool] = False

    retries: int = Field(
        2, ge=0, le=1000, description="times that a trial which crashed is tried again"
    )
    patience: float = Field(
        PATIENCE,
        ge=1,
        le=86400,
        description="seconds without a sign of life after which a trial is taken over",
    )

    def jobs(self) -> int:
        """How many trials run at the same time unless somebody says so: one for each core."""
        # In a container they are fewer than the machine has.
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1

    def announce(self, label: str, trials: Sequence[RunConfig], jobs: int) -> None:
        """Say before they begin how many trainings there are and how long they will take."""
        announce(label, trials, jobs)

    @abstractmethod
    def each(self, tasks: Sequence[Task], jobs: int) -> Iterator[tuple[str, Outcome]]:
        """Compute tasks, ``jobs`` at a time, and yield each that has ended, in any order.

        A task whose process died may be left out; it is given again.
        """


_engine: ContextVar[Engine | None] = ContextVar("engine", default=None)


@contextmanager
def using(engine: Engine) -> Iterator[None]:
    """Compute all trials meanwhile with this engine."""
    before = _engine.set(engine)
    try:
        yield
    finally:
        _engine.reset(before)


def current() -> Engine:
    """The engine in use, by default the local one."""
    found = _engine.get()
    return found if found is not None else load(ENGINES["local"])()


def named(name: str, options: Mapping[str, Any]) -> Engine:
    """An engine by its name, with options as a user typed them."""
    engine: Engine = kind_of(name).make(**options)
    return engine


def kind_of(name: str) -> type[Engine]:
    """The class of an engine."""
    if name not in ENGINES:
        raise UserError(f"unknown engine {name!r}; {suggestion(name, ENGINES)}")
    kind: type[Engine] = load(ENGINES[name])
    return kind


def outcomes(
    calls: Mapping[str, Callable[[Claiming], Answer]],
    claims: Path,
    modules: tuple[str, ...],
    jobs: int,
    say: Callable[[str], None] = lambda words: None,
) -> Iterator[tuple[str, Answer | Crashed]]:
    """Compute all calls with the engine in use, and yield each once, when it is done or given up.

    What another process works on is waited for, and ``say`` is told so.
    """
    engine = current()
    owner = None if engine.remote else os.getpid()
    locks = not (engine.remote or engine.shares)
    how = engine.name, engine.patience, owner, locks, Path.cwd()
    left = {name: Task(name, claims, call, modules, *how) for name, call in calls.items()}
    watch, crashes, waiting = Watch(), Counter[str](), dict[str, Holder]()
    pause = LOOK_AGAIN
    while left:
        for name in list(waiting):
            free = watch.free(claims, name)
            if free is not None:
                del waiting[name]
                left[name] = replace(left[name], stale=free)
        ready = [task for name, task in left.items() if name not in waiting]
        if not ready:
            name, holder = next(iter(waiting.items()))
            say(f"{len(waiting)} elsewhere, such as {name} by {holder}")
            time.sleep(pause)
            pause = min(1.5 * pause, max(LOOK_AGAIN, engine.patience / BEATS))
            continue
        pause = LOOK_AGAIN
        for name, outcome in engine.each(ready, jobs):
            match outcome:
                case Claimed(holder):
                    waiting[name] = holder
                    continue
                case Refused(message):
                    raise UserError(message)
                case Crashed():
                    crashes[name] += 1
                    if crashes[name] <= engine.retries:
                        left[name] = replace(left[name], crashed=True)
                        continue
            del left[name]
            yield name, outcome


def _enter(place: Path) -> None:
    """Work in the folder where the command was given: a worker may have begun anywhere."""
    try:
        os.chdir(place)
    except OSError as error:
        raise UserError(
            f"a worker on {socket.gethostname()} cannot work in {place} ({error.strerror}): give "
            "the command in a folder that all machines see under the same path"
        ) from error


@cache
def _settle(owner: int | None) -> None:
    """Make a worker process one that computes on one thread and ends with its owner, if it has one.

    The parent of a worker of Ray or Slurm is a process of theirs, which looks after it.
    """
    import torch

    # One thread each: two processes with one thread do more small steps than one with two.
    torch.set_num_threads(1)
    # Networks that fail to learn fill up with denormal numbers, which cost twice the time.
    torch.set_flush_denormal(True)
    if owner is None:
        return

    def end_with_owner() -> None:
        while os.getppid() == owner:
            time.sleep(0.2)
        os._exit(1)  # at any moment: the trial continues from its last checkpoint

    threading.Thread(target=end_with_owner, daemon=True).start()
