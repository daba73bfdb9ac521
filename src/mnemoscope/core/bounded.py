"""Small files that nobody has to trust: any bytes give the object or a `UserError`, in bounds.

Size is looked at before a byte is read, depth while reading. A *sealed* file carries a digest of
what it says, so that a changed byte is told apart from another opinion.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import yaml

from mnemoscope.core.errors import UserError, first_line
from mnemoscope.core.files import write_whole

# A config, a study's options, an answer: what a person may write or look at.
MOST_TEXT = 256 * 2**10
# What a study computed.
MOST_JSON = 256 * 2**20
# A text that is read line by line.
MOST_LINES = 2**30
_DEEPEST = 64
_LONGEST_NUMBER = 64


@contextmanager
def opened(path: str | Path) -> Iterator[BinaryIO]:
    """Open a regular file for reading; pipes, devices and folders are refused, not waited for."""
    path = Path(path)
    try:
        # Not to wait for a writer who never comes, should this be a pipe.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise UserError(f"{path} is not a regular file: copy what it holds into one")
        with open(handle, "rb") as file:
            yield file
    except FileNotFoundError:
        raise UserError(f"there is no file {path}") from None
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it
        raise UserError(
            f"cannot read {path}: {getattr(error, 'strerror', None) or error}"
        ) from error


def read_bytes(path: str | Path, most: int) -> bytes:
    """Return what a regular file holds; pipes, devices, folders and huge files are refused."""
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise UserError(f"{path} has {size} bytes, more than the {most} allowed")
        content = file.read(most + 1)
    if len(content) > most:
        raise UserError(f"{path} has more than the {most} bytes allowed")
    return content


def read_text(path: str | Path, most: int = MOST_TEXT) -> str:
    """Return the text of a small UTF-8 file."""
    try:
        return read_bytes(path, most).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from None


def read_lines(path: str | Path) -> list[str]:
    """The lines of a UTF-8 file that are not empty, without spaces around them."""
    lines = [line.strip() for line in read_text(path, MOST_LINES).splitlines()]
    return [line for line in lines if line]


def read_json(path: str | Path, remedy: str, most: int = MOST_JSON) -> Any:
    """Return what a JSON file says; ``remedy`` tells what to do when it is damaged."""
    try:
        return json.loads(read_bytes(path, most).decode("utf-8"))
    # ValueError covers what is no UTF-8 and numbers of thousands of digits, RecursionError
    # brackets without end.
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged ({first_line(error)}): {remedy}") from error


def write_sealed(path: Path, facts: Any) -> Path:
    """Write facts as JSON together with their digest."""
    return write_whole(path, json.dumps({"facts": facts, "seal": digest(facts)}).encode())


def read_sealed(path: str | Path, remedy: str) -> Any:
    """Return the facts of a file that `write_sealed` wrote, if not one of them has changed."""
    content = read_json(path, remedy)
    if not isinstance(content, dict) or set(content) != {"facts", "seal"}:
        raise UserError(f"{path} is damaged (it has no seal): {remedy}")
    facts = content["facts"]
    # Checkpoints were the first files that had one, four times as long.
    if content["seal"] not in (digest(facts), digest(facts, size=64)):
        raise UserError(f"{path} is damaged (its seal does not fit what it says): {remedy}")
    return facts


def digest(facts: Any, size: int = 16) -> str:
    """A digest of plain values, ``size`` bytes, the same in any order of keys."""
    content = json.dumps(facts, sort_keys=True)
    return hashlib.blake2b(content.encode(), digest_size=size).hexdigest()


def parse_yaml(text: str, where: str) -> Any:
    """Return what a YAML text says: plain values only, without aliases, dates or deep nesting."""
    if len(text) > MOST_TEXT:
        raise UserError(f"{where} has {len(text)} characters, more than the {MOST_TEXT} allowed")
    try:
        try:
            return _parsed(text, _FAST)
        except yaml.YAMLError:
            # Said again by the parser that every machine has: its words are the same everywhere.
            return _parsed(text, _PLAIN)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise UserError(
            f"{where} is not valid YAML: {error.problem or error.context}{place}"
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"{where} is not valid YAML: {first_line(error)}") from None


def _loader(base: Any) -> Any:
    """YAML of plain values: no dates, and no number that takes a second to read."""

    class Loader(base):  # type: ignore[misc]
        pass

    def number(loader: Any, node: Any) -> Any:
        if len(node.value) > _LONGEST_NUMBER:
            raise _wrong(f"a number of {len(node.value)} characters", node)
        return base.yaml_constructors[node.tag](loader, node)

    Loader.add_constructor("tag:yaml.org,2002:int", number)
    Loader.add_constructor("tag:yaml.org,2002:float", number)
    # A date is a string here: nothing of ours is a date, and 2024-13-45 is none.
    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in found if not tag.endswith(":timestamp")]
        for first, found in base.yaml_implicit_resolvers.items()
    }
    return Loader


_PLAIN = _loader(yaml.SafeLoader)
# The C library is several times as fast, and a page may list thousands of runs.
_FAST = _loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _parsed(text: str, loader: Any) -> Any:
    """What a text says, once it is known to hold nothing that makes a small file cost much."""
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.AliasEvent):
            raise _wrong("aliases (*name) are not allowed: write the value out", event)
        if getattr(event, "tag", None) not in (None, "!"):
            raise _wrong("tags (!name) are not allowed: plain values only", event)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise _wrong(f"nested deeper than {_DEEPEST} levels", event)
    return yaml.load(text, Loader=loader)


def _wrong(problem: str, at: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=at.start_mark)
