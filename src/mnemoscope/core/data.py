"""Results as plain values and back: frozen dataclasses on one side, JSON on the other."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, TypeVar, cast

import numpy as np
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from mnemoscope.core.errors import UserError

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """A dataclass, and all that it holds, as values that JSON can hold.

    Tuples and arrays become lists; what is not finite becomes a word, since JSON has no number for
    it.
    """
    return json.loads(to_json(value, inf_nan_mode="strings", fallback=_listed))


def _listed(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"JSON cannot hold a {type(value).__name__}")


def from_plain(kind: type[T], values: Any, where: str = "the values") -> T:
    """The dataclass of this ``kind`` that `to_plain` made ``values`` of, or `UserError`."""
    try:
        revived: T = _adapter(cast(Any, kind)).validate_python(values)
        return revived
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or getattr(kind, "__name__", str(kind))
        raise UserError(f"{where}: {place}: {first['msg'].lower()}") from None


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
