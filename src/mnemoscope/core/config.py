"""What every configuration shares: frozen, strict about keys, errors a person can read."""

from __future__ import annotations

from types import NoneType
from typing import Annotated, Any, Literal, Self, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from mnemoscope.core.aliases import canonical, renamed
from mnemoscope.core.errors import UserError, shown, suggestion

# The longest path a system takes; no name is longer.
_LONGEST_TEXT = 4096
_MOST_ITEMS = 1000
# Seeds may be any 64 bits; integers beyond mean nothing anywhere.
_LARGEST = 2**64
# Deeper than anything that has been trained; every one of them is a module.
MOST_LAYERS = 10_000


def _all_different(items: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    for place, item in enumerate(items or ()):
        if item in (items or ())[:place]:
            raise ValueError(f"{shown(item)} is named twice: leave one out")
    return items


# For a tuple whose items stand side by side: ``memories: Annotated[tuple[str, ...], DISTINCT]``.
DISTINCT = AfterValidator(_all_different)


def _registered_all(kind: str) -> AfterValidator:
    def check(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if names is None else tuple(canonical(kind, name) for name in names)

    return AfterValidator(check)


# For options that name several: ``memories: Annotated[tuple[str, ...], MEMORY_NAMES, DISTINCT]``.
MEMORY_NAMES, TRANSLATOR_NAMES = _registered_all("memory"), _registered_all("translator")


def _increasing(numbers: tuple[int, ...]) -> tuple[int, ...]:
    if list(numbers) != sorted(set(numbers)) or min(numbers, default=1) < 1:
        raise ValueError("must be increasing numbers of at least 1")
    return numbers


# For lengths, waits and ranks along which something is measured.
Increasing = Annotated[tuple[int, ...], AfterValidator(_increasing)]


class Config(BaseModel):
    """A frozen set of named values; an unknown name or a wrong type is an error, never ignored.

    Numbers are finite, and texts and tuples no longer than a person would write.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,
        allow_inf_nan=False,
        str_max_length=_LONGEST_TEXT,
    )

    @field_validator("*", mode="after")
    @classmethod
    def _within_reason(cls, value: Any) -> Any:
        if isinstance(value, tuple) and len(value) > _MOST_ITEMS:
            raise ValueError(f"{len(value)} items are too many: at most {_MOST_ITEMS}")
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, int) and not -_LARGEST < item < _LARGEST:
                raise ValueError(f"{shown(item)} is out of range: at most 2**64 - 1")
            if isinstance(item, str) and "\0" in item:
                raise ValueError(f"{shown(item)} holds a NUL character")
        return value

    @model_validator(mode="before")
    @classmethod
    def _as_called_now(cls, values: Any) -> Any:
        return renamed(cls.model_fields, values) if isinstance(values, dict) else values

    @classmethod
    def make(cls, **values: Any) -> Self:
        """Build from values as a user typed them (strings included), or raise `UserError`.

        In a string, commas part the items of a tuple and ``none`` stands for None.
        """
        try:
            given = renamed(cls.model_fields, values)
            return cls(**{name: cls._read(name, value) for name, value in given.items()})
        except ValidationError as error:
            raise UserError(explain(cls, error)) from None

    @classmethod
    def _read(cls, name: str, value: Any) -> Any:
        field = cls.model_fields.get(name)
        if not isinstance(value, str) or field is None:
            return value
        # Optional ones are unions, whose parts may carry annotations of their own.
        kinds = [_bare(kind) for kind in (field.annotation, *get_args(field.annotation))]
        if value.lower() == "none" and NoneType in kinds:
            return None
        if any(get_origin(kind) is tuple for kind in kinds):
            return [item.strip() for item in value.split(",")]
        return value

    def defaults(self) -> dict[str, Any]:
        """What options would be that nobody had given, as JSON has it.

        This is what they were for a version that did not have them yet.
        """
        given = self.model_dump()
        return {
            name: to_jsonable_python(
                field.get_default(call_default_factory=True, validated_data=given)
            )
            for name, field in type(self).model_fields.items()
            if not field.is_required()
        }

    @classmethod
    def options(cls) -> list[tuple[str, str, str, str]]:
        """Rows of (name, type, default, meaning) for help texts."""
        return [
            (
                name,
                _kind(field.annotation),
                _default(field),
                field.description or "",
            )
            for name, field in cls.model_fields.items()
        ]


def _bare(annotation: Any) -> Any:
    """The type itself, of one that is annotated."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _kind(annotation: Any) -> str:
    """A type as a person would say it: ``int or none``, ``cosine|constant``, ``int,int,…``."""
    annotation = _bare(annotation)
    parts = get_args(annotation)
    if get_origin(annotation) is Literal:
        return "|".join(str(part) for part in parts)
    if get_origin(annotation) is tuple:
        return f"{_kind(parts[0])},{_kind(parts[0])},…"
    if parts:
        return " or ".join(_kind(part) for part in parts)
    return "none" if annotation is NoneType else str(getattr(annotation, "__name__", annotation))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    return "derived" if field.default_factory else _plain(field.default)


def _plain(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(_plain(item) for item in value)
    return "none" if value is None else str(value)


def explain(cls: type[BaseModel], error: ValidationError) -> str:
    """Turn pydantic's report into one line per mistake, with the nearest known key."""
    lines = []
    for item in error.errors():
        key = shown(".".join(str(part) for part in item["loc"]), quoted=False)
        if item["type"] == "extra_forbidden":
            hint = suggestion(key, cls.model_fields)
            lines.append(f"{cls.__name__} has no option {key!r}; {hint}")
        elif item["type"] == "missing":
            lines.append(f"{cls.__name__} needs a value for {key!r}")
        elif item["type"] == "value_error":
            message = str(item["ctx"]["error"])
            lines.append(f"{key}: {message}" if key else message)
        elif item["type"] != "default_factory_not_called":  # follows from another mistake
            lines.append(f"{key}: {item['msg'].lower()} (got {shown(item['input'])})")
    return "\n".join(lines)
