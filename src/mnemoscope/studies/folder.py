"""The folder of a study: who works in it, and what it holds, is checked before it is used.

One process does, or several that share it (`engines`). Where one does, the folder itself is held,
because the files in it are replaced when they are written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import yaml

from mnemoscope.core.bounded import digest, parse_yaml, read_json, read_text
from mnemoscope.core.data import from_plain, to_plain
from mnemoscope.core.errors import UserError
from mnemoscope.core.files import held, write_whole
from mnemoscope.report.document import Reproduce
from mnemoscope.studies.answers import sealed
from mnemoscope.studies.aside import same_options
from mnemoscope.studies.engines.claims import FOLDER as CLAIMS
from mnemoscope.studies.engines.claims import is_over, present
from mnemoscope.studies.engines.engine import Engine, current
from mnemoscope.studies.notices import notice
from mnemoscope.studies.study import Study

MARK, RESULT = "study.yaml", "result.json"
# Of result.json; raised when its outer form changes.
VERSION = 1
# What a study leaves beside its mark.
_OURS = {"runs", "fits", "small", "figures", "report.html", RESULT}
_ANSWERS = ("runs/*/examined.json", "fits/*.json")


def options_yaml(name: str, config: Study) -> str:
    """All options of a study, as they lie in its folder."""
    values = {"study": name, **config.model_dump(mode="json")}
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, default_flow_style=None)


@contextmanager
def claimed(
    folder: Path, name: str, config: Study, engine: Engine | None = None
) -> Iterator[dict[str, Any]]:
    """Make the folder this study's own, and yield its options as they lie there.

    What another study left is never mixed in. A study that is refused before its first training
    leaves nothing behind. By default trials are for the engine in use.
    """
    engine = current() if engine is None else engine
    with ExitStack() as stack:
        made = _hold(folder, stack, locks=not (engine.remote or engine.shares))
        try:
            known = _options(folder, name, config)
            with present(folder, engine.name, engine.shares, engine.patience):
                yield known
        except BaseException:
            _withdraw(folder, made)
            raise


def _hold(folder: Path, stack: ExitStack, locks: bool) -> list[Path]:
    """Make the folder and hold it; returns what had to be made."""
    while True:
        made = _make(folder)
        try:
            stack.enter_context(held(folder, f"working on {folder}", locks))
            return made
        except FileNotFoundError:
            pass  # a study that was refused has just taken the folder away


def _make(folder: Path) -> list[Path]:
    """Make a folder and those above it; returns the ones that were not there, outermost first."""
    try:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder} exists already and is not a study; choose another --out")
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it
        said = getattr(error, "strerror", None) or error
        raise UserError(f"cannot write {folder}: {said}") from error
    return missing[::-1]


def _withdraw(folder: Path, made: list[Path]) -> None:
    """Take back what was made, unless there is more in it than a mark and empty folders."""
    files = [Path(place) / name for place, _, names in os.walk(folder) for name in names]
    if not all(_passing(path.name) if path.parent == folder else _claim(path) for path in files):
        return
    inner = [Path(place) for place, _, _ in os.walk(folder, topdown=False)][:-1]
    try:
        for path in files:
            path.unlink()
        for path in [*inner, *reversed(made)]:
            path.rmdir()
    except OSError:  # not ours to change, or somebody else put something there
        return


def _passing(name: str) -> bool:
    """Whether a file is no more than what begins a study, or a draft that a kill left."""
    return name in (MARK, CLAIMS) or name.endswith(".part")


def _claim(path: Path) -> bool:
    """Whether a file is a claim of our own: others may be at work here."""
    return path.parent.name == CLAIMS and is_over(path)


def _options(folder: Path, name: str, config: Study) -> dict[str, Any]:
    """Check the mark of the folder against this study, or set it."""
    mark, content = folder / MARK, options_yaml(name, config)
    wanted: dict[str, Any] = parse_yaml(content, str(mark))
    try:
        begun = {path.name for path in folder.iterdir() if not _passing(path.name)}
    except OSError as error:
        raise UserError(f"cannot read {folder}: {error.strerror or error}") from error
    if begun and os.path.lexists(mark):
        found = _read_mark(mark)
        if not same_options(found, config, "study", "study", name):
            raise UserError(
                f"{folder} holds a study with other options (see {mark}); choose another --out"
            )
        return found
    if begun and not _remains(folder, begun):
        raise UserError(f"{folder} exists already and is not a study; choose another --out")
    write_whole(mark, content.encode())
    return wanted


def _read_mark(mark: Path) -> dict[str, Any]:
    try:
        found = parse_yaml(read_text(mark), str(mark))
        if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
            raise UserError(f"{mark} does not say which study it is of")
    except UserError as error:
        raise UserError(
            f"{error}. Delete that file: the same command writes it again, and every training "
            "that is of these options is kept"
        ) from error
    return found


def _remains(folder: Path, begun: set[str]) -> bool:
    """Whether this was a study whose mark is lost; each of its files is checked by itself."""
    answers = any(next(folder.glob(pattern), None) for pattern in _ANSWERS)
    return begun <= _OURS and (answers or (RESULT in begun and not _of_a_lens(folder / RESULT)))


def _of_a_lens(path: Path) -> bool:
    try:
        found = read_json(path, "it is computed again")
    except UserError:  # damaged: what is left of a study is computed again
        return False
    return isinstance(found, dict) and found.get("kind") in ("lens", "check")


@dataclass(frozen=True)
class Finished:
    """What `result.json` holds: a result, how it was made, what was done again.

    ``name`` is that of a study, or of a lens or check where ``kind`` says so; ``models`` are the
    names of those that were looked at. What it has to do without is ``missing``.
    """

    name: str
    result: Any
    made: Reproduce
    notices: tuple[str, ...] = ()
    kind: Literal["study", "lens", "check"] = "study"
    models: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def write_result(folder: Path, options: dict[str, Any], finished: Finished) -> None:
    """Write a result and its seal, which is of the options too."""
    whole = {"version": VERSION, **to_plain(finished)}
    whole["seal"] = digest([options, whole])
    write_whole(folder / RESULT, json.dumps(whole).encode())


def known_result(folder: Path, options: dict[str, Any], kind: type) -> Finished | None:
    """The result if it is there and whole; one that is not is said to be computed again.

    One that does without some trials is computed again without a word: they are tried again.
    """
    path = folder / RESULT
    if not os.path.lexists(path):
        return None
    again = "it is computed again from the trials"
    try:
        found = read_json(path, again)
    except UserError as error:
        notice(f"{error}.")
        return None
    try:
        _check_result(found, options, folder)
        finished = revive(found, kind)
        return None if finished.missing else finished
    except UserError as error:
        notice(f"{path} {error}: {again}.")
        return None


def revive(found: Any, kind: type) -> Finished:
    """What `write_result` wrote, with a result of this ``kind``; or `UserError`."""
    if not isinstance(found, dict) or found.get("version") != VERSION:
        raise UserError("is of another version")
    known = {key: value for key, value in found.items() if key in _FIELDS}
    finished = from_plain(Finished, known, "is of another version")
    return replace(finished, result=from_plain(kind, finished.result, "is of another version"))


def _check_result(found: Any, options: dict[str, Any], folder: Path) -> None:
    if not isinstance(found, dict):
        raise UserError("is damaged")
    if "seal" in found:
        inner = {key: value for key, value in found.items() if key != "seal"}
        if found["seal"] != digest([options, inner]):
            raise UserError("is damaged (its seal does not fit)")
    # Older versions sealed neither trials nor results; where trials are sealed, so was the result.
    elif any(sealed(path) for pattern in _ANSWERS for path in folder.glob(pattern)):
        raise UserError("is damaged (its seal is gone)")


_FIELDS = {field.name for field in fields(Finished)}
