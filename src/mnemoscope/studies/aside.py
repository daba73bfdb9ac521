"""A run that lies where a trial belongs but is of another config: kept, and out of the way."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

from mnemoscope.core.aliases import canonical, stored
from mnemoscope.core.bounded import parse_yaml, read_text
from mnemoscope.core.config import Config
from mnemoscope.core.errors import UserError
from mnemoscope.core.files import held
from mnemoscope.training.config import RunConfig

# What only a run has that was begun: without its config nobody can say what it is of.
_BEGUN = ("config.yaml", "examined.json", "metrics.jsonl", "checkpoints", "model.safetensors")


def put_aside(home: Path, config: RunConfig, aside: Path) -> bool:
    """Move a run of another config away; says whether one ever was, since the page tells it."""
    if any(os.path.lexists(home / name) for name in _BEGUN) and not is_of(home, config):
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


def is_of(home: Path, config: RunConfig) -> bool:
    """Whether a folder holds a run of just this config."""
    path = home / "config.yaml"
    try:
        found = parse_yaml(read_text(path), str(path))
    except UserError:
        return False
    if not isinstance(found, dict) or set(found) != {"task", "model", "training"}:
        return False
    return (
        same_options(found["task"], config.task, "name", "task", config.task_name)
        and same_options(found["model"], config.model, "name", config.task.models, config.memory)
        and same_options(found["training"], config.training)
    )


def same_options(found: Any, config: Config, key: str = "", kind: str = "", name: str = "") -> bool:
    """Whether plain values mean the same as a config; an option that is not there has its default.

    Under ``key`` they must say ``name``, which is of a ``kind`` in the registry.
    """
    if not isinstance(found, dict):
        return False
    said = found.get(key, "")
    if not isinstance(said, str) or (canonical(kind, said) if kind else said) != name:
        return False
    try:
        values = stored(type(config).model_fields, {k: v for k, v in found.items() if k != key})
        return type(config).make(**values) == config
    except (UserError, TypeError):  # TypeError: keys that are no words
        return False
