"""Ray: a trial is a plain remote task, on a cluster that exists or on one that is started here."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from pydantic import Field

from mnemoscope.core.errors import UserError, first_line
from mnemoscope.studies.engines.engine import Crashed, Engine, Outcome, Task, last_lines


class Ray(Engine):
    """Tasks on a Ray cluster whose nodes all see the study's folder and its data."""

    name: ClassVar[str] = "ray"
    remote: ClassVar[bool] = True

    address: str | None = Field(
        None, description="of the cluster, such as 10.0.0.5:6379 or auto; none starts one here"
    )
    cpus: float = Field(1.0, gt=0, description="CPUs that are reserved for a trial")
    gpus: float = Field(0.0, ge=0, description="GPUs that are reserved for a trial")

    def jobs(self) -> int:
        """As many as the cluster has room for now; if it grows, more run at the same time."""
        resources = self._ray().cluster_resources()
        room = [resources.get("CPU", 0) / self.cpus]
        room += [resources.get("GPU", 0) / self.gpus] if self.gpus else []
        return max(1, int(min(room)))

    def each(self, tasks: Sequence[Task], jobs: int) -> Iterator[tuple[str, Outcome]]:
        """Give all tasks to the cluster; it starts them as it has room.

        Retries are not left to Ray: what was under way may still be claimed.
        """
        ray = self._ray()
        needs = {"num_cpus": self.cpus, "num_gpus": self.gpus, "max_retries": 0}
        call = ray.remote(**needs)(_computed)
        waiting = {call.remote(task): task.name for task in tasks}
        try:
            while waiting:
                (done,), _ = ray.wait(list(waiting), num_returns=1)
                name = waiting.pop(done)
                try:
                    yield name, ray.get(done)
                except ray.exceptions.RayTaskError as error:  # what the task could not catch itself
                    yield name, Crashed(last_lines(str(error)))
                except ray.exceptions.RayError as error:
                    yield name, Crashed(("its worker or node died", first_line(error)))
        finally:
            for left in waiting:
                ray.cancel(left, force=True)

    def _ray(self) -> Any:
        """The library, connected to the cluster."""
        try:
            import ray
        except ImportError:
            raise UserError(
                "the engine ray needs a package that is not installed: "
                "pip install 'mnemoscope[ray]'"
            ) from None
        if not ray.is_initialized():
            # A cluster of our own has as many CPUs as this process may use, and no web page. It
            # says "local", lest Ray takes one that happens to run on this machine.
            own: dict[str, Any] = {"num_cpus": super().jobs(), "include_dashboard": False}
            how = {"address": self.address} if self.address else {"address": "local", **own}
            # It asks to be told this; what a trial prints is in Ray's own logs.
            os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
            try:
                ray.init(**how, log_to_driver=False, logging_level="ERROR")
            except (ConnectionError, ValueError, RuntimeError) as error:
                where = self.address or "one of this machine's own"
                raise UserError(
                    f"cannot reach the Ray cluster ({where}): {first_line(error)}. Is it running? "
                    "ray status says so"
                ) from error
        return ray


def _computed(task: Task) -> Outcome:
    return task()[1]
