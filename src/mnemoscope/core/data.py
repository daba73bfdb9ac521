"""Results as plain values and back: frozen dataclasses on one side, JSON on the other."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from mnemoscope.core.errors import UserError

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """A dataclass, and all that it holds, as values that JSON can hold.

    Tuples become lists; what is not finite becomes a word, since JSON has no number for it.
    """
    return json.loads(to_json(value, inf_nan_mode="strings"))


def from_plain(kind: type[T], values: Any, where: str = "the values") -> T:
    """The dataclass of this ``kind`` that `to_plain` made ``values`` of, or `UserError`."""
    try:
        revived: T = _adapter(cast(Any, kind)).validate_python(values)
        return revived
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or kind.__name__
        raise UserError(f"{where}: {place}: {first['msg'].lower()}") from None


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
