"""What every configuration shares: frozen, strict about keys, errors a person can read."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from mnemoscope.errors import UserError, suggestion


class Config(BaseModel):
    """A frozen set of named values; an unknown name or a wrong type is an error, never ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    @classmethod
    def make(cls, **values: Any) -> Self:
        """Build from values as a user typed them (strings included), or raise `UserError`."""
        try:
            return cls(**values)
        except ValidationError as error:
            raise UserError(explain(cls, error)) from None

    @classmethod
    def options(cls) -> list[tuple[str, str, str, str]]:
        """Rows of (name, type, default, meaning) for help texts."""
        rows = []
        for name, field in cls.model_fields.items():
            kind = getattr(field.annotation, "__name__", None)
            if kind in (None, "Literal", "Optional", "Union"):
                kind = str(field.annotation).replace("typing.", "").replace("NoneType", "none")
            default = "required" if field.is_required() else str(field.default)
            rows.append((name, str(kind), default, field.description or ""))
        return rows


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
