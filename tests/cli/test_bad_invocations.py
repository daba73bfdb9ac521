"""Hundreds of command lines with a mistake in each: what a user sees, and what is left behind.

``bad_invocations.txt`` holds one a line, as a user would type it. Words in braces stand for the
files of `invocation_files`; behind `` ## `` stands what the message must say. Without that, it must
name one of the words that were typed.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import invocation_server
import pytest
from invocation_files import LETTERS

pytest.importorskip("transformers")
pytest.importorskip("uvicorn")
pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="forks, pipes and limits as Linux has them"
)

HERE = Path(__file__).parent
LINES = [
    line
    for line in (HERE / "bad_invocations.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
CHUNKS = 8
MOST_LINES, MOST_CHARACTERS = 12, 6000


class Server:
    """The process that runs command lines, and the folder of the files they speak of."""

    def __init__(self, folder: Path) -> None:
        self.made = folder / "made"
        self.process = subprocess.Popen(
            [sys.executable, invocation_server.__file__, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._line() == "ready\n"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def run(self, lines: list[str]) -> list[tuple[str, dict[str, Any]]]:
        """How each line ended."""
        assert self.process.stdin is not None
        requests = [(number, self.words(line)) for number, line in enumerate(lines)]
        self.process.stdin.write(json.dumps(requests) + "\n")
        self.process.stdin.flush()
        endings = [json.loads(self._line()) for _ in lines]
        return [(lines[one["number"]], one) for one in endings]

    def words(self, line: str) -> list[str]:
        """The words of a line, those in braces replaced by what they stand for."""
        command, *rest = shlex.split(line.partition(" ## ")[0])
        assert command == "mnemoscope"
        return [re.sub(r"\{([\w.-]+)\}", self._meant, word) for word in rest]

    def _meant(self, found: re.Match[str]) -> str:
        name = found[1]
        assert (
            name in LETTERS
            or name == "nowhere"
            or (self.made / name).is_symlink()
            or (self.made / name).exists()
        ), name
        return LETTERS.get(name, str(self.made / name))

    def files(self) -> dict[str, tuple[int, int]]:
        """All files that were made, with their size and time."""
        found = {}
        for path in self.made.rglob("*"):
            about = path.lstat()
            size = 0 if path.is_dir() else about.st_size
            found[path.relative_to(self.made).as_posix()] = size, about.st_mtime_ns
        return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("invocations"))
    yield server
    server.process.communicate()


def fault(line: str, words: list[str], ending: dict[str, Any]) -> str | None:
    """What is wrong with how a line ended."""
    said, wanted = ending["said"], line.partition(" ## ")[2]
    if ending["stopped"]:
        return f"took too long, or died, after {ending['seconds']:.1f} s of work"
    if "Traceback" in said:
        return f"traceback: {said.strip().splitlines()[-1]}"
    if ending["code"] != 2:
        return f"exit code {ending['code']}: {said[:300]}"
    if ending["left"]:
        return f"left behind: {', '.join(ending['left'][:5])}"
    lines = [one for one in said.splitlines() if one.strip(" ─│╭╮╰╯")]
    if not lines:
        return "says nothing"
    if len(lines) > MOST_LINES or len(said) > MOST_CHARACTERS:
        return f"says {len(lines)} lines, {len(said)} characters: {said[:300]}"
    if wanted:
        return None if wanted in said else f"does not say {wanted!r}: {said.strip()}"
    typed = {form for word in words for form in _forms(word)}
    return None if any(one in said for one in typed) else f"names nothing typed: {said.strip()}"


def _forms(word: str) -> list[str]:
    """How a message may name a word: an option without hyphens, the beginning of a long one."""
    plain = word.lstrip("-").partition("=")[0]
    forms = [word[:30], plain[:30], plain.replace("-", "_")[:30], repr(word)[1:31]]
    return [form for form in forms if len(form) > 2]


def test_the_table_is_long_and_says_nothing_twice() -> None:
    assert len(LINES) >= 700
    assert len({line.partition(" ## ")[0] for line in LINES}) == len(LINES)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_mistake_gets_one_message_and_leaves_nothing(server: Server, chunk: int) -> None:
    before = server.files()
    endings = server.run(LINES[chunk::CHUNKS])
    faults = [
        f"{line}\n    {found}"
        for line, ending in endings
        if (found := fault(line, server.words(line), ending))
    ]
    changed = sorted({name for name, _ in set(before.items()) ^ set(server.files().items())})
    assert not faults, f"{len(faults)} of {len(endings)}:\n" + "\n".join(faults)
    assert not changed
