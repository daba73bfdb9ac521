"""The small files of runs and studies, which anybody may have written: read within bounds.

What cannot be read is no failure of the page: it becomes a line that says so, for that run alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from mnemoscope.core.bounded import opened, parse_yaml, read_text
from mnemoscope.core.errors import UserError

Json = dict[str, Any]

# Settings longer than this nobody wrote by hand; ours have a thousandth.
MOST_SETTINGS = 64 << 10
# Bytes of a log that are looked at, and the pieces they come in when it has more.
MOST_LOG, PIECES = 4 << 20, 128
LONGEST_LINE = 64 << 10
TAIL = 8192
# No loss is larger; what is not finite is not smaller either.
MOST_MEASURED = 1e30
# Names and reasons are cut to what fits on a line or two.
LONGEST_WORDS = 300
# JavaScript counts no further.
LAST_STEP = (1 << 53) - 1
REMEMBERED = 4000


@dataclass(frozen=True)
class Settings:
    """What the page tells of a config.yaml or study.yaml; ``problem`` says why it tells nothing."""

    task: str = "?"
    memory: str = "?"
    study: str = "?"
    steps: int | None = None
    problem: str | None = None


def settings(path: Path) -> Settings:
    """Look into a small YAML file; read again only when it was written again."""
    try:
        about = path.stat()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        return Settings(problem=f"cannot read {shown(path.name)}: {why}")
    return _settings(path, about.st_mtime_ns, about.st_size)


# A few words of each are remembered, never all that a file says: that could be a great deal.
@lru_cache(maxsize=REMEMBERED)
def _settings(path: Path, written: int, size: int) -> Settings:
    try:
        found = parse_yaml(read_text(path, MOST_SETTINGS), path.name)
    except UserError as error:
        return Settings(problem=shown(str(error).replace(str(path), path.name)))
    if not isinstance(found, dict):
        return Settings(problem=f"{path.name} holds no settings")
    task, model, training = (_dict(found.get(key)) for key in ("task", "model", "training"))
    steps = training.get("steps")
    return Settings(
        shown(str(task.get("name", "?"))),
        shown(str(model.get("name", "?"))),
        shown(str(found.get("study", "?"))),
        steps if _counts(steps) else None,
    )


def metrics(folder: Path) -> list[Json]:
    """What a run has logged so far, of a long log parts from all of it.

    A line that is being written is left out, and so is what is no entry.
    """
    try:
        with opened(folder / "metrics.jsonl") as file:
            return [entry for entry in map(_entry, _lines(file)) if entry is not None]
    except UserError:
        return []


def _lines(file: BinaryIO) -> Iterator[bytes]:
    size = os.fstat(file.fileno()).st_size
    if size <= MOST_LOG:
        yield from file.read(MOST_LOG).splitlines()
        return
    piece = MOST_LOG // PIECES
    for place in range(PIECES):
        start = (size - piece) * place // (PIECES - 1)
        file.seek(start)
        # A piece begins and ends within lines, but for the ends of the log.
        lines = file.read(piece).splitlines()
        yield from lines[start > 0 : None if place == PIECES - 1 else -1]


@dataclass(frozen=True)
class Progress:
    """How far a run is: its newest step and loss, held out if ``tested``; or why nobody can tell.

    Both stand in the end of a log; a held-out loss that is further back is not looked for.
    """

    step: int = 0
    loss: float | None = None
    tested: bool = False
    problem: str | None = None


def progress(folder: Path) -> Progress:
    """What the end of a run's log says."""
    path = folder / "metrics.jsonl"
    if not os.path.lexists(path):
        return Progress()
    try:
        with opened(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            lines = file.read(TAIL).splitlines()
    except UserError as error:
        return Progress(problem=shown(str(error).replace(str(path), path.name)))
    entries = [entry for entry in map(_entry, reversed(lines)) if entry is not None]
    if not entries:
        problem = f"{path.name} ends with no entry that can be read"
        return Progress(problem=None if len(lines) < 2 else problem)
    for name in ("valid_loss", "loss"):
        losses = [loss for entry in entries if (loss := measured(entry, name)) is not None]
        if losses:
            return Progress(entries[0]["step"], losses[0], name == "valid_loss")
    return Progress(entries[0]["step"])


def measured(entry: Json, name: str) -> float | None:
    """A number that an entry logged, None when there is none that can be drawn."""
    value = entry.get(name)
    if isinstance(value, int | float) and abs(value) < MOST_MEASURED:
        return float(value)
    return None


def _entry(line: bytes) -> Json | None:
    if len(line) > LONGEST_LINE:
        return None
    try:
        entry = json.loads(line)
    # ValueError covers what is no JSON, no UTF-8, or a number of thousands of digits.
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) and _counts(entry.get("step")) else None


def text(path: Path) -> str:
    """The beginning of a file as it is; nothing when it cannot be read."""
    try:
        with opened(path) as file:
            return file.read(MOST_SETTINGS).decode("utf-8", errors="replace")
    except UserError:
        return ""


def names(folder: Path, most: int) -> list[str]:
    """Names in a folder, sorted, as many as there may be; none when it cannot be read."""
    try:
        with os.scandir(folder) as found:
            return sorted(entry.name for entry in islice(found, most))
    except OSError:
        return []


def is_file(path: Path) -> bool:
    """Whether there is such a file, as far as anybody may know."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def shown(words: str) -> str:
    """Words as a page can show them: one line, not long, and without half of a character."""
    line = whole(" ".join(words[: 2 * LONGEST_WORDS].split()))
    return line if len(line) <= LONGEST_WORDS else f"{line[: LONGEST_WORDS - 1]}…"


def whole(words: str) -> str:
    """The same words, with question marks for halves of characters."""
    return words.encode("utf-8", errors="replace").decode()


def speakable(name: str) -> bool:
    """Whether a name is text, and not bytes of some other encoding."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _counts(value: Any) -> bool:
    # By type: true is no step.
    return type(value) is int and 0 <= value <= LAST_STEP


def _dict(value: Any) -> Json:
    return value if isinstance(value, dict) else {}
