"""A run that lies where a trial belongs but is of another config: kept, and out of the way."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

from mnemoscope.core.bounded import parse_yaml, read_text
from mnemoscope.core.config import Config
from mnemoscope.core.errors import UserError
from mnemoscope.core.files import held
from mnemoscope.studies.kept import plain
from mnemoscope.training.config import RunConfig

# What only a run has that was begun: without its config nobody can say what it is of.
_BEGUN = ("config.yaml", "examined.json", "metrics.jsonl", "checkpoints", "model.safetensors")


def put_aside(home: Path, config: RunConfig, aside: Path) -> bool:
    """Move a run of another config away; says whether one ever was, since the page tells it."""
    if any(os.path.lexists(home / name) for name in _BEGUN) and not _is_of(home, config):
        mark = home / "config.yaml"
        with held(mark, f"training {home}", mark.is_file()):
            free = (place for place in _places(aside / home.name) if not os.path.lexists(place))
            try:
                aside.mkdir(exist_ok=True)
                os.rename(home, next(free))
            except OSError as error:
                raise UserError(
                    f"{home} is of another config and cannot be moved to {aside}: "
                    f"{error.strerror or error}"
                ) from error
    return (aside / home.name).is_dir()


def _places(first: Path) -> Any:
    more = (first.with_name(f"{first.name}.{number}") for number in itertools.count(2))
    return itertools.chain([first], more)


def _is_of(home: Path, config: RunConfig) -> bool:
    """Compares plain values: a file that nobody has checked is not built into anything."""
    path = home / "config.yaml"
    try:
        found = parse_yaml(read_text(path), str(path))
    except UserError:
        return False
    wanted = parse_yaml(config.to_yaml(), "config")
    if not isinstance(found, dict) or set(found) != set(wanted):
        return False
    kinds = {"task": config.task, "model": config.model, "training": config.training}
    return all(same_options(found[part], wanted[part], kinds[part]) for part in wanted)


def same_options(found: Any, wanted: dict[str, Any], config: Config) -> bool:
    """Whether two sets of plain values mean the same; an option that was not there yet had its
    default."""
    defaults = plain(type(config).model_construct().model_dump(mode="json"))
    return isinstance(found, dict) and {**defaults, **found} == {**defaults, **wanted}
