"""Types what a page prints, block after block, in forks of one warm process.

Started by `test_printed`, so that what forks has no thread but its own. It reads requests, one JSON
object a line: the folder to stand in, and what is typed there. All Python of a page shares one
process, as in a notebook; every command has its own. One line of JSON answers: how each block
ended, up to the first that failed.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from invocation_server import WARM, fork

# Of one command, or of all Python on a page, while the machine is busy with others.
MOST_SECONDS = 1200
ENVIRONMENT = {
    "BROWSER": "true",  # a page that is to be opened is opened by a program that does nothing
    "COLUMNS": "200",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_NUM_THREADS": "1",
}


@dataclass
class Typed:
    """A block, how it is tried (python, command, begin), and how that ended."""

    line: int
    way: str
    text: str
    title: str | None = None
    code: int = 0
    said: str = ""
    seconds: float = 0.0


def read(page: list[Typed]) -> list[Typed]:
    """Type the blocks of a page where we stand; the last one may have failed."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    sys.path.insert(0, os.getcwd())
    done = []
    for block in page:
        began = time.monotonic()
        if block.way == "python":
            _python(block, namespace)
        else:
            _command(block)
        block.seconds = time.monotonic() - began
        done.append(block)
        if block.code:
            break
    return done


def _python(block: Typed, namespace: dict[str, Any]) -> None:
    if block.title:
        Path(block.title).write_text(block.text)
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            exec(compile(block.text, f"<line {block.line}>", "exec"), namespace)
    except BaseException:
        said.write(traceback.format_exc())
        block.code = 1
    block.said = said.getvalue()


def _command(block: Typed) -> None:
    """Run a command to its end, or (``begin``) until it has begun its work."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "output"
        output.touch()
        before = _files()
        process = fork(partial(_type, block.text), output)
        until = time.monotonic() + MOST_SECONDS
        while True:
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                block.code = os.waitstatus_to_exitcode(status)
                break
            begun = block.way == "begin" and _has_begun(output, before)
            if begun or time.monotonic() > until:
                os.killpg(process, signal.SIGKILL)
                os.waitpid(process, 0)
                block.code = 0 if begun else 1
                break
            time.sleep(0.01)
        block.said = output.read_bytes().decode(errors="replace")


def _has_begun(output: Path, before: set[str]) -> bool:
    """Whether a command has written its first file, or says where it serves."""
    return b"http://" in output.read_bytes() or bool(_files() - before)


def _files() -> set[str]:
    """All that was written here; what is linked from the project was not."""
    return {os.path.join(place, name) for place, _, names in os.walk(".") for name in names}


def _type(text: str) -> None:
    """What a shell does with a line: our command in this process, all else by a shell."""
    signs = list(shlex.shlex(text, posix=True, punctuation_chars=True))
    words = shlex.split(text, comments=True)
    if words[0] == "mnemoscope" and not any(set(sign) <= set("();<>|&") for sign in signs):
        from mnemoscope.cli import main

        sys.argv = words
        main(words[1:])
        return
    sys.exit(subprocess.run(["bash", "-ec", text]).returncode)


def answer(request: dict[str, Any], output: Path) -> None:
    """Read one page in a fork of its own."""

    def work() -> None:
        os.chdir(request["folder"])
        done = read([Typed(**block) for block in request["blocks"]])
        output.with_suffix(".json").write_text(json.dumps([asdict(one) for one in done]))

    process = fork(work, output)
    os.waitpid(process, 0)


def main() -> None:
    """Warm up, then answer until there are no more requests."""
    os.environ |= ENVIRONMENT
    os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    for name in WARM:
        importlib.import_module(name)
    importlib.import_module("torch").set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for number, line in enumerate(sys.stdin):
            output = Path(folder) / str(number)
            answer(json.loads(line), output)
            told = output.with_suffix(".json")
            said = output.read_text(errors="replace")
            lost = [asdict(Typed(0, "python", "the page", code=1, said=said))]
            sys.stdout.write((told.read_text() if told.exists() else json.dumps(lost)) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
