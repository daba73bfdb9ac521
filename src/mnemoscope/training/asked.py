"""What a user asks to be trained, as the config of a run. Imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mnemoscope.core.bounded import read_text
from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import FIRST_CHOICE, find, name_of
from mnemoscope.core.trust import trusting
from mnemoscope.memories.config import ModelConfig
from mnemoscope.training.config import RunConfig

if TYPE_CHECKING:
    from mnemoscope.models.model import SequenceModel


def resolve(
    task: str | Path, model: str | type[ModelConfig] | SequenceModel | None, options: dict[str, Any]
) -> tuple[RunConfig, SequenceModel | None]:
    """The config, and the model to begin with when one was given."""
    if Path(task).suffix in (".yaml", ".yml"):
        if model is not None:
            raise UserError(f"{task} names its model already: give one or the other")
        return RunConfig.from_yaml(read_text(task), str(task), options), None
    if model is None or isinstance(model, str):
        usual = FIRST_CHOICE[find("task", str(task)).models]
        return RunConfig.of(str(task), usual if model is None else model, options), None
    if isinstance(model, type):
        return _of_kind(str(task), model, options), None
    fixed = sorted(key for key in options if key in type(model.config).model_fields)
    if fixed:
        raise UserError(f"the model is given, its {fixed[0]} cannot be changed: leave it out")
    shape = {f"model.{key}": value for key, value in model.config.model_dump().items()}
    return _of_kind(str(task), type(model.config), {**options, **shape}), model


def _of_kind(task: str, kind: type[ModelConfig], options: dict[str, Any]) -> RunConfig:
    """The same for a class, which the caller has imported and so trusts."""
    name = name_of(kind)
    with trusting(kind.__module__):
        config = RunConfig.of(task, name, options)
    if type(config.model) is not kind:
        raise UserError(f"{name} is another class than the one given: give it a name of its own")
    return config
