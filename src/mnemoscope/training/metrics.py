"""metrics.jsonl: a line is a step and numbers. Lines that are damaged cost themselves, no more."""

from __future__ import annotations

import json
import logging
import os
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from mnemoscope.core.bounded import opened
from mnemoscope.core.errors import UserError

log = logging.getLogger(__name__)

# A line has a dozen numbers; a million lines are ten million steps.
LONGEST_LINE = 4096
MOST_BYTES = 256 * 2**20
_LARGEST = 2**63


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Every line that is whole; never raises for what a file holds, but says so once."""
    if not os.path.lexists(path):
        return []
    try:
        with opened(path) as file:
            entries, damaged = _entries(file)
    except UserError as error:
        _warn(str(error))
        return []
    if damaged:
        lines = "1 line" if damaged == 1 else f"{damaged} lines"
        _warn(f"{lines} of {path} cannot be read")
    return entries


def _entries(file: IO[bytes]) -> tuple[list[dict[str, Any]], int]:
    entries: list[dict[str, Any]] = []
    damaged, left = 0, MOST_BYTES
    while left > 0 and (line := file.readline(LONGEST_LINE)):
        left -= len(line)
        ended = line.endswith(b"\n")
        if not ended and len(line) == LONGEST_LINE:
            while left > 0 and not ended and (rest := file.readline(LONGEST_LINE)):
                left -= len(rest)
                ended = rest.endswith(b"\n")
            damaged += 1
            continue
        entry = _entry(line)
        if entry is not None:
            entries.append(entry)
        elif ended and line.strip():  # without an end: cut short by a kill, written again later
            damaged += 1
    return entries, damaged + (left <= 0)


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or type(entry.get("step")) is not int or entry["step"] < 0:
        return None
    whole = all(type(value) is float or _is_count(value) for value in entry.values())
    return entry if whole else None


def _is_count(value: Any) -> bool:
    return type(value) is int and abs(value) < _LARGEST


@lru_cache(maxsize=256)
def _warn(what: str) -> None:
    """Once a process: a page may ask for the same metrics again and again."""
    log.warning(
        "%s: what is whole is used, the rest is left out. It can be deleted; a run that continues "
        "measures again what comes after its checkpoint",
        what,
    )
