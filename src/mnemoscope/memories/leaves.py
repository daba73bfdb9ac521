"""The tensors and counts inside any state, by their dotted paths, and a state with others.

A state may be a tensor, tuples, lists and dicts, a dataclass such as ours, or a cache object of
`transformers`, nested in any way. Nothing of it is changed in place.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, nn

from mnemoscope.memories.state import tensor_bytes

Change = Callable[[str, Any], Any]


def leaves(state: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every tensor and whole number in a state under its dotted path."""
    inside = _inside(state)
    if inside is not None:
        for name, item in inside.items():
            yield from leaves(item, f"{path}.{name}" if path else name)
    elif isinstance(state, Tensor) or (isinstance(state, int) and not isinstance(state, bool)):
        yield path or "state", state


def tensors(state: Any) -> dict[str, Tensor]:
    """The tensors in a state that hold something, by path."""
    return {
        path: leaf for path, leaf in leaves(state) if isinstance(leaf, Tensor) and leaf.numel() > 0
    }


def nbytes(state: Any) -> int:
    """Bytes of all tensors in a state: inside those that wrap others, once if under two names."""
    return sum(map(tensor_bytes, {id(leaf): leaf for leaf in tensors(state).values()}.values()))


def mapped(state: Any, change: Change, path: str = "") -> Any:
    """The same state with ``change(path, leaf)`` in the place of every leaf."""
    inside = _inside(state)
    if inside is None:
        leaf = isinstance(state, Tensor) or (isinstance(state, int) and not isinstance(state, bool))
        return change(path or "state", state) if leaf else state
    new = {
        name: mapped(item, change, f"{path}.{name}" if path else name)
        for name, item in inside.items()
    }
    if isinstance(state, dict):
        return type(state)(zip(state, new.values(), strict=True))
    if isinstance(state, tuple) and hasattr(state, "_fields"):
        return type(state)(*new.values())
    if isinstance(state, list | tuple):
        return type(state)(new.values())
    if dataclasses.is_dataclass(state) and not isinstance(state, type):
        return dataclasses.replace(state, **new)
    made = copy.copy(state)
    vars(made).update(new)
    return made


def cloned(state: Any) -> Any:
    """The same state with tensors of its own."""
    return mapped(state, lambda _, leaf: leaf.clone() if isinstance(leaf, Tensor) else leaf)


def _inside(value: Any) -> dict[str, Any] | None:
    """What a container holds by name; None for a leaf."""
    if isinstance(value, dict):
        return {str(key): item for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value, strict=True))
    if isinstance(value, list | tuple):
        return {str(index): item for index, item in enumerate(value)}
    if isinstance(value, Tensor | nn.Module | type) or hasattr(value, "model_type"):
        return None
    if dataclasses.is_dataclass(value):
        kept = [one.name for one in dataclasses.fields(value) if one.init]
        return {name: getattr(value, name) for name in kept}
    # A cache object, as those of transformers; a bound method, a config or a module is none.
    return dict(vars(value)) if hasattr(value, "__dict__") and not callable(value) else None
