"""Runs command lines in forks of one warm process, and tells how each of them ended.

Started by `test_bad_invocations`, so that what forks has no thread but its own: pytest's process
may have any. First it makes the files that command lines speak of (in a fork as well), then it
reads requests, one JSON list of [number, words] a line, and answers each with one line of JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mnemoscope.core.registry import LENSES

# All that a command may import, so that no fork has to; none of them starts a thread.
WARM = (
    *("torch", "accelerate", "transformers", "sacrebleu", "joblib", "plotly", "safetensors.torch"),
    *("uvicorn", "fastapi", "sklearn.datasets", "transformers.models.llama.modeling_llama"),
    *("mnemoscope.cli", "mnemoscope.api", "mnemoscope.doctor", "mnemoscope.scope.serve"),
    *("mnemoscope.training.loop", "mnemoscope.training.scores", "mnemoscope.fresh_process"),
    *("mnemoscope.models.generation", "mnemoscope.models.translator", "mnemoscope.studies.sizes"),
    *("mnemoscope.huggingface.documents.memory", "mnemoscope.huggingface.infinite.memory"),
    *("mnemoscope.huggingface.loading", "mnemoscope.huggingface.texts"),
    *(f"mnemoscope.lenses.{name}.lens" for name in LENSES),
)
# Processor time is what a busy machine does not change; the rest is for those who sleep.
MOST_SECONDS, MOST_WAITING = 10, 60
ROOM = 4 * 2**30
AT_ONCE = 2


@dataclass
class Ending:
    """How a command line ended."""

    number: int
    code: int
    said: str
    left: list[str]
    stopped: bool
    seconds: float


@dataclass
class _Running:
    number: int
    process: int
    home: Path
    began: float


def fork(work: Callable[[], Any], output: Path) -> int:
    """Do ``work`` in a fork whose output goes to a file; its exit code is that of a command."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number in (1, 2):
            os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
        try:
            work()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except BaseException:
            traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def command(words: list[str], home: Path) -> None:
    """What a user would see who types the words in a new folder."""
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS + used(), MOST_SECONDS + used() + 1))
    used_room = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used_room + ROOM, used_room + ROOM))
    os.chdir(home)
    sys.argv = ["mnemoscope", *words]
    from mnemoscope.cli import main

    main(words)


def used() -> int:
    """Seconds of processor time so far, rounded up."""
    return int(time.process_time()) + 1


def run_all(requests: list[tuple[int, list[str]]], folder: Path, tell: Callable[..., None]) -> None:
    """Run all command lines, a few at once."""
    waiting = list(requests)
    running: dict[int, _Running] = {}
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            number, words = waiting.pop(0)
            home = Path(tempfile.mkdtemp(dir=folder))
            (home / "cwd").mkdir()
            process = fork(partial(command, words, home / "cwd"), home / "output")
            running[process] = _Running(number, process, home, time.monotonic())
        for process in [p for p in running if finished(p, running[p], tell)]:
            del running[process]
        time.sleep(0.005)


def finished(process: int, one: _Running, tell: Callable[..., None]) -> bool:
    """Whether a command line has come to its end, by itself or not; then it is told."""
    done, status, spent = os.wait4(process, os.WNOHANG)
    late = time.monotonic() - one.began > MOST_WAITING
    if not done and not late:
        return False
    if not done:
        os.killpg(process, signal.SIGKILL)
        _, status, spent = os.wait4(process, 0)
    cwd = one.home / "cwd"
    left = sorted(path.relative_to(cwd).as_posix() for path in cwd.rglob("*"))
    said = (one.home / "output").read_bytes().decode(errors="replace")
    code, died = os.waitstatus_to_exitcode(status), os.WIFSIGNALED(status)
    tell(Ending(one.number, code, said, left, late or died, spent.ru_utime + spent.ru_stime))
    return True


def main() -> None:
    """Warm up, make the files, then answer until there are no more requests."""
    folder = Path(sys.argv[1])
    os.environ |= {"COLUMNS": "400", "NO_COLOR": "1", "TERM": "dumb", "HF_HUB_OFFLINE": "1"}
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
    for name in WARM:
        importlib.import_module(name)
    importlib.import_module("torch").set_num_threads(1)
    from invocation_files import make

    made = folder / "made"
    process = fork(lambda: make(made), folder / "making")
    if os.waitpid(process, 0)[1]:
        sys.exit((folder / "making").read_text())

    def tell(ending: Ending) -> None:
        sys.stdout.write(json.dumps(asdict(ending)) + "\n")
        sys.stdout.flush()

    work = folder / "work"
    work.mkdir()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        run_all(json.loads(line), work, tell)


if __name__ == "__main__":
    main()
