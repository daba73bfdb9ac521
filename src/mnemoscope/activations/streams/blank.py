"""What is to be taken away from a state, and a state with all of it taken away.

Positions count from the start of the stream; a state that comes out is always a copy.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemoscope.memories.state import State


@dataclass(frozen=True)
class Blank:
    """Which part of a state is taken away; what is None is not narrowed down.

    layer   of which layer
    store   of which memory of that layer, by the title of its panel
    tokens  the first and the last token, of memories that hold tokens
    unit    one unit of a vector, one basis function, one entry of a document memory
    """

    layer: int | None = None
    store: str | None = None
    tokens: tuple[int, int] | None = None
    unit: int | None = None

    def concerns(self, layer: int, store: str) -> bool:
        """Whether anything of this memory goes."""
        return self.layer in (None, layer) and self.store in (None, store)

    def hides(self, first: NDArray[np.int64], each: int) -> NDArray[np.bool_]:
        """Which positions go (S,), each with ``each`` tokens from ``first`` (S,) on."""
        if self.tokens is None:
            return np.ones(first.shape, dtype=np.bool_)
        low, high = self.tokens
        return (first <= high) & (first + each > low)


def emptied(state: Any) -> Any:
    """The same state with nothing in it, as if all that was read had been forgotten.

    Counts stay: where the next token stands is no memory of those before it.
    """
    return _counted(state.reset([0]), state)


def _counted(fresh: Any, old: Any) -> Any:
    if isinstance(fresh, tuple):
        return tuple(_counted(*pair) for pair in zip(fresh, old, strict=True))
    if not isinstance(fresh, State):
        return fresh
    names = [field.name for field in dataclasses.fields(fresh) if field.init]
    values = {
        name: old.count if name == "count" else _counted(getattr(fresh, name), getattr(old, name))
        for name in names
    }
    return dataclasses.replace(fresh, **values)
