"""What a trial or a measurement leaves: its values, sealed together with what they are of.

A file is believed only when its seal fits and when it is of the same config, the same weights and
the same question. Whatever else lies there is computed again, and the reader is told.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from mnemoscope.core.bounded import (
    digest,
    parse_yaml,
    read_json,
    read_sealed,
    read_text,
    write_sealed,
)
from mnemoscope.core.data import from_plain, to_plain
from mnemoscope.core.errors import UserError
from mnemoscope.studies.notices import notice

VERSION = 1
# Why something was done again, as the files say it and as the page does.
REASONS = {
    "damaged": "{done} again because what was kept of {them} was damaged",
    "unsealed": "{done} again because what was kept of {them} has no seal: an older version "
    "wrote it, or it is damaged",
    "other": "{done} again because what was kept of {them} is of other options or other weights",
    "older": "{done} again because an older version kept less of {them}",
    "aside": "trained again because what lay in {their} place was a run of another config, which "
    "is in put-aside now",
}
_NAMED = 5


@dataclass(frozen=True)
class Answer:
    """Values that can be trusted, and why they were computed more than once ("" if not)."""

    values: dict[str, Any]
    again: str
    cpu: float = 0.0  # seconds that they took; older versions did not say


def answered(
    path: Path,
    of: Callable[[], Mapping[str, Any]],
    compute: Callable[[], Any],
    kind: Any,
    again: str = "",
) -> Answer:
    """What was kept of just this, if it is of this ``kind``; else it is computed, and kept.

    ``of`` says what it is of, before and after it is computed; ``again`` why it has to be anyway.
    """
    kept, why = known(path, of(), kind)
    if kept is not None:
        return kept
    began = time.process_time()
    values = to_plain(compute())
    kept = Answer(values, again or why, round(time.process_time() - began, 3))
    write_sealed(path, {"version": VERSION, "of": dict(of()), **asdict(kept)})
    return kept


def known(path: Path, of: Mapping[str, Any], kind: Any) -> tuple[Answer | None, str]:
    """What was kept of just this, if it is of this ``kind``; or else why it cannot be used."""
    kept, why = _recall(path, of)
    if kept is None:
        return None, why
    try:
        from_plain(kind, kept.values)
    except UserError:
        return None, "older"
    return kept, ""


def _recall(path: Path, of: Mapping[str, Any]) -> tuple[Answer | None, str]:
    """What was kept of just this; or else why it cannot be used ("" when there is nothing)."""
    if not os.path.lexists(path):
        return None, ""
    try:
        facts = read_sealed(path, "it is computed again")
    except UserError:
        # Older versions sealed nothing, but they always said something.
        return None, "unsealed" if _object(path) and not sealed(path) else "damaged"
    if not isinstance(facts, dict) or set(facts) - {"cpu"} != {"version", "of", "values", "again"}:
        return None, "damaged"
    if facts["version"] != VERSION or facts["of"] != of:
        return None, "other"
    return Answer(facts["values"], facts["again"], float(facts.get("cpu", 0.0))), ""


def sealed(path: Path) -> bool:
    """Whether a file claims a seal, fitting or not: what older versions wrote has none."""
    return "seal" in _object(path)


def _object(path: Path) -> dict[str, Any]:
    try:
        content = read_json(path, "")
    except UserError:
        return {}
    return content if isinstance(content, dict) else {}


def asked(call: Callable[..., Any]) -> str:
    """A digest of all that a call was given beforehand, such as the options of a study.

    Folders do not count: a study may be moved.
    """
    given: list[Any] = []
    while isinstance(call, partial):
        given.append([list(call.args), dict(call.keywords)])
        call = call.func
    return digest(plain(given))


def plain(value: Any) -> Any:
    """The same as JSON has it: what is computed and what is read back do not differ."""
    return json.loads(json.dumps(value, default=_plain))


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Path):
        return None
    raise TypeError(f"JSON cannot hold {value!r}")


def config_digest(path: Path) -> str | None:
    """What a YAML file says, whatever its layout; None when it says nothing that can be read."""
    try:
        return digest(parse_yaml(read_text(path), str(path)))
    except (UserError, TypeError):  # TypeError: keys that have no order, as in {1: a, b: c}
        return None


def file_digest(path: Path) -> str | None:
    """A digest of a file of any size; None when there is none."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "blake2b").hexdigest()[:32]
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error


def say_again(done: str, total: int, reasons: Mapping[str, str]) -> None:
    """Say which of ``total`` were done again, and why; ``reasons`` are by name, "" for none."""
    for reason, words in REASONS.items():
        names = [name for name, found in reasons.items() if found == reason]
        if names:
            one = len(names) == 1
            told = words.format(
                done=done, them="it" if one else "them", their="its" if one else "their"
            )
            verb = "was" if one else "were"
            notice(f"{len(names)} of {total} trials {verb} {told}: {_listed(names)}.")


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
