"""What every configuration shares: frozen, strict about keys, errors a person can read."""

from __future__ import annotations

from types import NoneType
from typing import Any, Literal, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError

from mnemoscope.errors import UserError, suggestion


class Config(BaseModel):
    """A frozen set of named values; an unknown name or a wrong type is an error, never ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    @classmethod
    def make(cls, **values: Any) -> Self:
        """Build from values as a user typed them (strings included), or raise `UserError`.

        In a string, commas part the items of a tuple and ``none`` stands for None.
        """
        try:
            return cls(**{name: cls._read(name, value) for name, value in values.items()})
        except ValidationError as error:
            raise UserError(explain(cls, error)) from None

    @classmethod
    def _read(cls, name: str, value: Any) -> Any:
        field = cls.model_fields.get(name)
        if not isinstance(value, str) or field is None:
            return value
        kinds = [field.annotation, *get_args(field.annotation)]
        if value.lower() == "none" and NoneType in kinds:
            return None
        if any(get_origin(kind) is tuple for kind in kinds):
            return [item.strip() for item in value.split(",")]
        return value

    @classmethod
    def options(cls) -> list[tuple[str, str, str, str]]:
        """Rows of (name, type, default, meaning) for help texts."""
        return [
            (
                name,
                _kind(field.annotation),
                "required" if field.is_required() else _plain(field.default),
                field.description or "",
            )
            for name, field in cls.model_fields.items()
        ]


def _kind(annotation: Any) -> str:
    """A type as a person would say it: ``int or none``, ``cosine|constant``, ``int,int,…``."""
    parts = get_args(annotation)
    if get_origin(annotation) is Literal:
        return "|".join(str(part) for part in parts)
    if get_origin(annotation) is tuple:
        return f"{_kind(parts[0])},{_kind(parts[0])},…"
    if parts:
        return " or ".join(_kind(part) for part in parts)
    return "none" if annotation is NoneType else str(getattr(annotation, "__name__", annotation))


def _plain(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(_plain(item) for item in value)
    return "none" if value is None else str(value)


def explain(cls: type[BaseModel], error: ValidationError) -> str:
    """Turn pydantic's report into one line per mistake, with the nearest known key."""
    lines = []
    for item in error.errors():
        key = ".".join(str(part) for part in item["loc"])
        if item["type"] == "extra_forbidden":
            hint = suggestion(key, cls.model_fields)
            lines.append(f"{cls.__name__} has no option {key!r}; {hint}")
        elif item["type"] == "missing":
            lines.append(f"{cls.__name__} needs a value for {key!r}")
        elif item["type"] == "value_error":
            message = str(item["ctx"]["error"])
            lines.append(f"{key}: {message}" if key else message)
        else:
            lines.append(f"{key}: {item['msg'].lower()} (got {item['input']!r})")
    return "\n".join(lines)
