"""Processes on this machine, by joblib."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, ClassVar

from mnemoscope.core.interrupts import postponed
from mnemoscope.studies.engines.claims import newest
from mnemoscope.studies.engines.engine import Crashed, Engine, Outcome, Task


class Local(Engine):
    """Processes on this machine."""

    name: ClassVar[str] = "local"

    def each(self, tasks: Sequence[Task], jobs: int) -> Iterator[tuple[str, Outcome]]:
        """Compute tasks in so many processes; with one job in this one.

        When a process dies, joblib ends the others too, and does not say whose fault it was: what
        was under way is tried again one by one, and only who dies alone has crashed.
        """
        left = {task.name: task for task in tasks if not task.crashed}
        suspects = [task for task in tasks if task.crashed]
        while left:
            try:
                for name, outcome in _pool(jobs, list(left.values())):
                    del left[name]
                    yield name, outcome
            except BrokenProcessPool:
                under_way = [task for task in left.values() if _abandoned(task)]
                # Nothing was claimed: processes cannot even begin, and so nor would one alone.
                suspects += under_way or list(left.values())
                left = {name: one for name, one in left.items() if one not in suspects}
        for task in suspects:
            try:
                yield from _pool(jobs, [task])
            except BrokenProcessPool as error:
                codes = [line for line in str(error).splitlines() if "exit codes" in line]
                yield task.name, Crashed(("its process died", *codes))


def _abandoned(task: Task) -> bool:
    """Whether somebody began with a task and is gone."""
    claim = newest(task.claims, task.name)
    return claim is not None and claim.over and not claim.released


def _pool(jobs: int, tasks: Sequence[Task]) -> Iterator[tuple[str, Outcome]]:
    import joblib

    # One by one: after many that were done already, joblib would hand out several at once.
    how = {"return_as": "generator_unordered", "backend": "loky", "batch_size": 1}
    pool = joblib.Parallel(n_jobs=jobs, inner_max_num_threads=1, **how)
    # Processes start here; Ctrl-C is for their owner, which ends them. The one that tidies up
    # after them need not tell of it.
    with postponed(), _in_environment("PYTHONWARNINGS", "ignore:resource_tracker:UserWarning"):
        done: Any = pool(joblib.delayed(task)() for task in tasks)
    yield from done


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
