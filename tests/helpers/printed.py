"""What README, guide and notebooks print for a reader to type, in the order of the page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).parents[2]
# Written by a program; of what was tried once, with the code of that day.
UNTYPED = ("docs/reference.md", "docs/log.md")
FENCE = re.compile(r"```(?P<language>\w*)(?: title=\"(?P<title>[\w./]+)\")?\s*$")


@dataclass(frozen=True)
class Block:
    """Some lines of Python, or one command; ``line`` is where it stands on its page.

    ``shown`` is the text block that follows Python with no word between them: what it prints.
    """

    line: int
    kind: Literal["python", "command"]
    text: str
    title: str | None = None
    shown: str | None = None


def pages() -> list[str]:
    """Every page and notebook, by its path in the project."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    found += sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")])
    names = [path.relative_to(ROOT).as_posix() for path in found]
    return [name for name in names if name not in UNTYPED]


def blocks(page: str) -> list[Block]:
    """All that a page prints to be typed."""
    path = ROOT / page
    if path.suffix == ".ipynb":
        return list(_cells(json.loads(path.read_text())))
    return list(_fenced_and_indented(path.read_text().splitlines()))


def _fenced_and_indented(lines: list[str]) -> Iterator[Block]:
    number = 0
    while number < len(lines):
        begin = number
        if fence := FENCE.match(lines[number]):
            inside = _until_fence(lines, begin + 1)
            number += len(inside) + 2
            after = lines[number + 1 : number + 2]
            shown = _text(_until_fence(lines, number + 2)) if after == ["```text"] else None
            match fence["language"]:
                case "python":
                    yield Block(begin + 2, "python", _text(inside), fence["title"], shown)
                case "sh":
                    yield from _commands(inside, begin + 2)
                case "text":
                    pass
                case other:
                    raise ValueError(f"line {begin + 1}: python, sh or text, not {other!r}")
        elif lines[number].startswith("    ") and not lines[number - 1].strip():
            while number < len(lines) and lines[number].startswith("    "):
                number += 1
            yield from _commands([line[4:] for line in lines[begin:number]], begin + 1)
        else:
            number += 1


def _until_fence(lines: list[str], begin: int) -> list[str]:
    return lines[begin : lines.index("```", begin)]


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _commands(lines: list[str], line: int) -> Iterator[Block]:
    """One command a line; a backslash at the end joins it with the next."""
    held: list[str] = []
    for number, text in enumerate(lines, start=line):
        held.append(text.removesuffix("\\"))
        if text.endswith("\\"):
            continue
        if command := "".join(held).strip():
            yield Block(number - len(held) + 1, "command", command)
        held = []


def _cells(notebook: dict[str, Any]) -> Iterator[Block]:
    """The code of a notebook; a line that begins with "!" is a command."""
    for number, cell in enumerate(notebook["cells"], start=1):
        if cell["cell_type"] != "code":
            continue
        lines = "".join(cell["source"]).splitlines()
        if lines[0].startswith("!"):
            yield from _commands([line.removeprefix("!") for line in lines], number)
        else:
            yield Block(number, "python", _text(lines))
