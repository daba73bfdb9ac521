"""A stand-in for Slurm, marked as such: scripts of its names that run jobs as processes here.

``sbatch`` starts every job of an array at once, ``sacct`` says how they ended, ``scontrol requeue``
starts one again, ``scancel`` ends it. It knows only what submitit asks for. Run as a script, this
file is all of them: the name that it is called by says which.
"""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

COMMANDS = ("sbatch", "srun", "sacct", "scancel", "scontrol")
HOME = "STAND_IN_FOR_SLURM"


def install(folder: Path) -> dict[str, str]:
    """Put the scripts into a folder; returns the environment in which they are found."""
    folder.mkdir()
    for name in COMMANDS:
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} {name} "$@"\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", HOME: str(folder)}


def jobs(folder: Path) -> dict[str, int]:
    """Process of each job that was started."""
    return {path.stem: int(path.read_text()) for path in folder.glob("*.pid")}


def _start(folder: Path, script: Path, job: str, after: float = 0) -> None:
    """Start a job; a shell of its own notes how it ends."""
    array, _, number = job.partition("_")
    environment = {
        **os.environ,
        "SLURM_JOB_ID": job.replace("_", "00"),
        "SLURM_JOB_NUM_NODES": "1",
        "SLURM_JOB_NODELIST": "here",
        "SLURM_NTASKS": "1",
        "SLURM_NODEID": "0",
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
    }
    if number:
        environment |= {"SLURM_ARRAY_JOB_ID": array, "SLURM_ARRAY_TASK_ID": number}
    (folder / f"{job}.ended").unlink(missing_ok=True)
    ended = folder / f"{job}.ended"
    shell = subprocess.Popen(
        ["/bin/sh", "-c", f'sleep {after}; /bin/sh {script}; echo $? > "{ended}"'],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    (folder / f"{job}.pid").write_text(str(shell.pid))


def sbatch(folder: Path, *words: str) -> None:
    script = Path(words[-1])
    number = str(1000 + len(list(folder.glob("*.sh"))))
    kept = folder / f"{number}.sh"
    kept.write_text(script.read_text())
    array = re.search(r"--array=0-(\d+)", kept.read_text())
    names = [f"{number}_{i}" for i in range(int(array[1]) + 1)] if array else [number]
    for job in names:
        _start(folder, kept, job)
    print(f"Submitted batch job {number}")


def srun(folder: Path, *words: str) -> None:
    given = dict(pairwise(words))
    names = {
        "%A": os.environ.get("SLURM_ARRAY_JOB_ID", ""),
        "%a": os.environ.get("SLURM_ARRAY_TASK_ID", ""),
        "%j": os.environ["SLURM_JOB_ID"],
        "%t": "0",
    }
    for option, handle in (("--output", 1), ("--error", 2)):
        log = given[option]
        for mark, value in names.items():
            log = log.replace(mark, value)
        os.dup2(os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY), handle)
    command = words[words.index("-u") - 1 :]
    os.execvp(command[0], command)


def sacct(folder: Path, *words: str) -> None:
    print("JobID|State|NodeList")
    for job in jobs(folder):
        ended = folder / f"{job}.ended"
        code = ended.read_text().strip() if ended.exists() else None
        state = "RUNNING" if code is None else "COMPLETED" if code == "0" else "FAILED"
        print(f"{job}|{state}|here")


def scancel(folder: Path, *words: str) -> None:
    for job, process in jobs(folder).items():
        if job == words[-1] or job.startswith(f"{words[-1]}_"):
            with suppress(ProcessLookupError):
                os.killpg(process, signal.SIGTERM)


def scontrol(folder: Path, *words: str) -> None:
    if words[0] == "requeue":
        name = words[1]
        _start(folder, folder / f"{name.partition('_')[0]}.sh", name, after=1)
        with open(folder / "requeued", "a") as file:
            file.write(json.dumps(name) + "\n")
    else:
        print("here")


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(os.environ[HOME]), *sys.argv[2:])
