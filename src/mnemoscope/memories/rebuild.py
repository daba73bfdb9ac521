"""Put a state together from a description that anybody may have written.

Nothing is built but what the class of the state says it may hold: known kinds of states, plain
values of the annotated types, and exactly the tensors that are there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, get_args, get_origin

from torch import Tensor

from mnemoscope.core.errors import UserError, shown
from mnemoscope.memories.shapes import choices, parts_of

# A stack of layers of memories of queues has five levels.
DEEPEST = 16

# Finds the class that a name means, None when nobody knows it.
Kinds = Callable[[str], type[Any] | None]


def parse(description: str) -> Any:
    """What a description says, as plain values."""
    try:
        return json.loads(description)
    # ValueError covers numbers of thousands of digits, RecursionError brackets without end.
    except (ValueError, RecursionError):
        raise UserError("its description is not JSON") from None


def rebuild(plan: Any, base: type[Any], tensors: Mapping[str, Tensor], kinds: Kinds) -> Any:
    """Return the state that ``plan`` describes, a ``base`` of one of the known ``kinds``."""
    builder = _Builder(base, dict(tensors), kinds)
    state = builder.value(plan, (base,), "", 0)
    if builder.left:
        raise UserError(f"the tensor {shown(min(builder.left))} belongs to nothing")
    return state


class _Builder:
    def __init__(self, base: type[Any], tensors: dict[str, Tensor], kinds: Kinds) -> None:
        self.base, self.left, self.kinds = base, tensors, kinds

    def value(self, plan: Any, allowed: tuple[Any, ...], name: str, depth: int) -> Any:
        where = shown(name) if name else "the state"
        kind = plan.get("kind") if isinstance(plan, dict) else None
        if not isinstance(kind, str) or depth > DEEPEST:
            raise UserError(f"{where} is not described as a state is")
        if kind == "tensor":
            return self._tensor(plan, allowed, name, where)
        if kind == "value":
            return _plain(plan, allowed, where)
        if kind == "tuple":
            return self._tuple(plan, allowed, name, where, depth)
        return self._state(plan, allowed, name, where, depth)

    def _tensor(self, plan: Any, allowed: tuple[Any, ...], name: str, where: str) -> Tensor:
        if set(plan) != {"kind"} or Tensor not in allowed:
            raise UserError(f"{where} cannot be a tensor")
        if name not in self.left:
            raise UserError(f"the tensor {where} is missing")
        return self.left.pop(name)

    def _tuple(
        self, plan: Any, allowed: tuple[Any, ...], name: str, where: str, depth: int
    ) -> tuple[Any, ...]:
        hint = next((one for one in allowed if get_origin(one) is tuple), None)
        if hint is None or set(plan) != {"kind", "items"} or not isinstance(plan["items"], list):
            raise UserError(f"{where} cannot be a list")
        items, types = plan["items"], get_args(hint)
        if types[-1] is Ellipsis:
            types = types[:1] * len(items)
        if len(types) != len(items):
            raise UserError(f"{where} has {len(items)} parts, not {len(types)}")
        pairs = enumerate(zip(items, types, strict=True))
        return tuple(
            self.value(item, choices(kind), f"{name}.{place}", depth + 1)
            for place, (item, kind) in pairs
        )

    def _state(self, plan: Any, allowed: tuple[Any, ...], name: str, where: str, depth: int) -> Any:
        kind = self.kinds(plan["kind"])
        if kind is None:
            module = plan["kind"].partition(":")[0]
            raise UserError(
                f"unknown state {shown(plan['kind'])}: import {module[:80]} before loading it"
            )
        fits = any(isinstance(one, type) and issubclass(kind, one) for one in allowed)
        if not fits or set(plan) != {"kind", "fields"} or not isinstance(plan["fields"], dict):
            raise UserError(f"{where} cannot be a {kind.__name__}")
        parts = {part.name: part for part in parts_of(kind)}
        fields = plan["fields"]
        odd = [key for key in fields if key not in parts]
        if odd:
            raise UserError(f"{where} has no part {shown(odd[0])}: it is a {kind.__name__}")
        missing = [
            part.name for part in parts.values() if part.required and part.name not in fields
        ]
        if missing:
            raise UserError(f"{where} lacks {missing[0]}: it is a {kind.__name__}")
        prefix = f"{name}." if name else ""
        return kind(
            **{
                key: self.value(item, parts[key].choices, prefix + key, depth + 1)
                for key, item in fields.items()
            }
        )


def _plain(plan: Any, allowed: tuple[Any, ...], where: str) -> Any:
    # By type, not isinstance: true is no number here.
    found = type(plan.get("value"))
    if set(plan) != {"kind", "value"} or found not in (str, int, float, bool, NoneType):
        raise UserError(f"{where} is not described as a state is")
    if found not in allowed:
        raise UserError(f"{where} cannot be {shown(plan['value'])}")
    return plan["value"]
