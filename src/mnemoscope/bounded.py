"""Small files that nobody has to trust: any bytes give the object or a `UserError`, in bounds.

Size is looked at before a byte is read, depth while reading. A *sealed* file carries a digest of
what it says, so that a changed byte is told apart from another opinion.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

import yaml

from mnemoscope.errors import UserError
from mnemoscope.files import write_whole

# A config, a study's options, an answer: what a person may write or look at.
MOST_TEXT = 256 * 2**10
# What a study computed.
MOST_JSON = 256 * 2**20
_DEEPEST = 64
_LONGEST_NUMBER = 64


def read_bytes(path: str | Path, most: int) -> bytes:
    """Return what a regular file holds; pipes, devices, folders and huge files are refused."""
    path = Path(path)
    try:
        # Not to wait for a writer who never comes, should this be a pipe.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(handle, "rb") as file:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode):
                raise UserError(f"{path} is not a regular file: copy what it holds into one")
            if about.st_size > most:
                raise UserError(f"{path} has {about.st_size} bytes, more than the {most} allowed")
            content = file.read(most + 1)
    except FileNotFoundError:
        raise UserError(f"there is no file {path}") from None
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it
        raise UserError(
            f"cannot read {path}: {getattr(error, 'strerror', None) or error}"
        ) from error
    if len(content) > most:
        raise UserError(f"{path} has more than the {most} bytes allowed")
    return content


def check_regular(path: str | Path) -> None:
    """Refuse pipes, devices and sockets, where reading may have no end, or no beginning."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise UserError(f"{path} is not a regular file: copy what it holds into one")


def read_text(path: str | Path, most: int = MOST_TEXT) -> str:
    """Return the text of a small UTF-8 file."""
    try:
        return read_bytes(path, most).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from None


def read_json(path: str | Path, remedy: str, most: int = MOST_JSON) -> Any:
    """Return what a JSON file says; ``remedy`` tells what to do when it is damaged."""
    try:
        return json.loads(read_text(path, most))
    # ValueError covers numbers of thousands of digits, RecursionError brackets without end.
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged ({_first_line(error)}): {remedy}") from error


def write_sealed(path: Path, facts: Any) -> Path:
    """Write facts as JSON together with their digest."""
    return write_whole(path, json.dumps({"facts": facts, "seal": digest(facts)}).encode())


def read_sealed(path: str | Path, remedy: str, most: int = MOST_JSON) -> Any:
    """Return the facts of a file that `write_sealed` wrote, if not one of them has changed."""
    content = read_json(path, remedy, most)
    if not isinstance(content, dict) or set(content) != {"facts", "seal"}:
        raise UserError(f"{path} is damaged (it has no seal): {remedy}")
    if content["seal"] != digest(content["facts"]):
        raise UserError(f"{path} is damaged (its seal does not fit what it says): {remedy}")
    return content["facts"]


def digest(facts: Any) -> str:
    """A short digest of plain values, the same for the same values in any order of keys."""
    content = json.dumps(facts, sort_keys=True)
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


def parse_yaml(text: str, where: str) -> Any:
    """Return what a YAML text says: plain values only, without aliases, dates or deep nesting."""
    if len(text) > MOST_TEXT:
        raise UserError(f"{where} has {len(text)} characters, more than the {MOST_TEXT} allowed")
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise UserError(
            f"{where} is not valid YAML: {error.problem or error.context}{place}"
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"{where} is not valid YAML: {_first_line(error)}") from None


class _Loader(yaml.SafeLoader):
    """YAML without what makes a small file cost much: aliases, depth, endless numbers."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            raise _wrong("aliases (*name) are not allowed: write the value out", event)
        if getattr(event, "tag", None) not in (None, "!"):
            raise _wrong("tags (!name) are not allowed: plain values only", event)
        if self.depth >= _DEEPEST:
            raise _wrong(f"nested deeper than {_DEEPEST} levels", event)
        self.depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1

    def construct_number(self, node: Any) -> Any:
        """An int or float of a length that a person would write."""
        if len(node.value) > _LONGEST_NUMBER:
            raise _wrong(f"a number of {len(node.value)} characters", node)
        kind = yaml.SafeLoader.yaml_constructors[node.tag]
        return kind(self, node)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_number)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_number)
# A date is a string here: nothing of ours is a date, and 2024-13-45 is none.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if not tag.endswith(":timestamp")]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _wrong(problem: str, at: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=at.start_mark)


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
