"""Result files of studies and lenses; and where those are that come with the package."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from mnemoscope.checks.page import Check
from mnemoscope.core.bounded import opened, read_json
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.core.registry import find
from mnemoscope.studies.folder import RESULT, Finished, revive

MOST_BYTES = 64 << 20
# Where the package is.
PACKAGE = Path(__file__).parents[1]


def home() -> Path:
    """The folder of shipped results: in a checkout beside the sources, else in the package."""
    inside = PACKAGE / "results"
    return inside if inside.is_dir() else PACKAGE.parents[1] / "results"


def shipped() -> list[str]:
    """Names of all results that come with the package."""
    return sorted(path.parent.name for path in home().glob(f"*/{RESULT}*"))


def load(name: str) -> Finished:
    """The shipped result of this name."""
    known = shipped()
    if name not in known:
        raise UserError(
            f"no result called {name!r} comes with the package; {suggestion(name, known)}"
        )
    return read(next(home().glob(f"{name}/{RESULT}*")))


def owner(kind: str, name: str) -> Any:
    """The study, lens or check that results of this kind and name are of."""
    return Check if kind == "check" else find(kind, name)


def read(path: Path) -> Finished:
    """A result file, packed or not; the folder of any study or lens has one."""
    try:
        if path.suffix == ".gz":
            with opened(path) as file, gzip.open(file) as packed:
                found = json.loads(packed.read(MOST_BYTES))
        else:
            found = read_json(path, "run the study or the lens again")
        kind = found.get("kind", "study") if isinstance(found, dict) else "study"
        return revive(found, owner(kind, found["name"]).Result)
    except (OSError, EOFError, ValueError, RecursionError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged: {error}") from error
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
