"""Slurm: trials are the jobs of an array, by submitit."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from mnemoscope.core.errors import UserError, first_line
from mnemoscope.studies.engines.engine import Crashed, Engine, Outcome, Task, last_lines

# Where submitit keeps scripts, logs and what goes to and fro, beside the claims.
FOLDER = ".slurm"
# Seconds between two looks at what jobs have left, and at what Slurm says has become of them.
LOOK_EVERY, ASK_EVERY = 0.5, 30.0
# Jobs of an array at the same time, unless somebody says how many.
AT_ONCE = 100


class Slurm(Engine):
    """Jobs of Slurm on nodes that all see the study's folder and its data."""

    name: ClassVar[str] = "slurm"
    remote: ClassVar[bool] = True

    partition: str | None = Field(None, description="partition that jobs go to; none = the usual")
    account: str | None = Field(None, description="account that jobs are charged to")
    minutes: int = Field(240, ge=1, description="longest time of a job")
    requeues: int = Field(
        20,
        ge=0,
        description="times that a job continues after its time was up, from its checkpoint",
    )
    cpus: int = Field(1, ge=1, description="CPUs of a job")
    gpus: int = Field(0, ge=0, description="GPUs of a job")
    memory_gb: float = Field(4.0, gt=0, description="memory of a job")
    cluster: Literal["slurm", "local"] = Field(
        "slurm", description="local = jobs are processes here, to try it without a cluster"
    )

    def jobs(self) -> int:
        """Jobs of an array at the same time."""
        return super().jobs() if self.cluster == "local" else AT_ONCE

    def each(self, tasks: Sequence[Task], jobs: int) -> Iterator[tuple[str, Outcome]]:
        """Submit all as an array, of which so many run at the same time."""
        executor = self._executor(tasks[0], jobs)
        # Processes here do not queue: they are given out as others end.
        at_once = jobs if self.cluster == "local" else len(tasks)
        todo, running = list(tasks), dict[Any, str]()
        asked = time.monotonic()
        try:
            while todo or running:
                new = todo[: at_once - len(running)]
                todo = todo[len(new) :]
                if new:
                    submitted = executor.map_array(_Computed(), new)
                    running |= {job: task.name for job, task in zip(submitted, new, strict=True)}
                # A job that was killed leaves nothing: only Slurm knows.
                ask = time.monotonic() - asked > ASK_EVERY
                for job in [one for one in running if one.done(force_check=ask)]:
                    yield running.pop(job), _outcome(job)
                asked = time.monotonic() if ask else asked
                time.sleep(LOOK_EVERY if running else 0)
        finally:
            for job in running:
                job.cancel(check=False)

    def _executor(self, first: Task, jobs: int) -> Any:
        try:
            import submitit
        except ImportError:
            raise UserError(
                "the engine slurm needs a package that is not installed: "
                "pip install 'mnemoscope[slurm]'"
            ) from None
        needs: dict[str, Any] = {
            "name": "mnemoscope",
            "timeout_min": self.minutes,
            "cpus_per_task": self.cpus,
            "mem_gb": self.memory_gb,
            "gpus_per_node": self.gpus,
            "slurm_array_parallelism": jobs,
            "slurm_partition": self.partition,
            "slurm_account": self.account,
        }
        try:
            executor = submitit.AutoExecutor(
                folder=first.claims.with_name(FOLDER),
                cluster=self.cluster,
                slurm_max_num_timeout=self.requeues,
            )
        except RuntimeError as error:
            raise UserError(
                f"there is no Slurm here ({first_line(error)}): start the command where sbatch is, "
                "or try it with --cluster local"
            ) from error
        executor.update_parameters(**{k: v for k, v in needs.items() if v is not None})
        return executor


class _Computed:
    """A task as submitit calls it; when the time of its job is up, it is submitted again."""

    def __call__(self, task: Task) -> Outcome:
        return task()[1]

    def checkpoint(self, task: Task) -> Any:
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, task)


def _outcome(job: Any) -> Outcome:
    """What a job gave back, or the last lines that it left."""
    from submitit.core.utils import FailedJobError, UncompletedJobError

    try:
        found: Outcome = job.result()
    except (FailedJobError, UncompletedJobError) as error:
        left = job.stderr() or str(error)
        return Crashed((f"its job {job.job_id} ended: {job.state}", *last_lines(left)))
    return found
