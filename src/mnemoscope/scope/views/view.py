"""What all views of a memory give: shares of tokens, and panels that draw what is held.

Shapes: T tokens of the segment just read, N tokens read so far, S positions of a memory.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mnemoscope.activations.hooks import Seen

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Json = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Part:
    """One thing that remembers, and what it is about at every token of the segment.

    shares  (T, N)  how much of it each token read so far makes up; a row adds up to at most 1
    """

    layer: int
    name: str
    shares: Floats


@dataclass(frozen=True, eq=False)
class Shown:
    """What one layer showed of one segment; a panel is plain JSON with a ``kind``."""

    parts: list[Part] = field(default_factory=list)
    panels: list[Json] = field(default_factory=list)


class View(Protocol):
    """Watches one layer while a model reads; it may remember what it saw of earlier segments."""

    def sites(self) -> list[str]:
        """Sites of the model that have to be watched."""

    def show(self, seen: Seen, before: Any, after: Any, first: int, new: int) -> Shown:
        """What the layer did with ``new`` tokens after ``first`` others, and what it holds now.

        ``before`` and ``after`` are its states; ``before`` is None at the start of a stream.
        """


def spread(weights: Floats, first: Ints, each: int, total: int) -> Floats:
    """Hand weights of positions (T, S) to the tokens they stand for: (T, N).

    Position s stands for ``each`` tokens from ``first[s]`` on, which share its weight evenly; no
    two positions stand for the same token.
    """
    shares = np.zeros((len(weights), total))
    for step in range(each):
        shares[:, first + step] = weights / each
    return shares


def slots(
    layer: int, part: str, title: str, first: Ints, each: int, room: int | None, size: int
) -> Json:
    """A panel of positions that hold ``each`` tokens from ``first`` (S,) on, in ``size`` bytes.

    ``part`` is the name of the part that uses them, ``room`` how many positions there can be.
    """
    return {
        "kind": "slots",
        "layer": layer,
        "part": part,
        "title": title,
        "first": first.tolist(),
        "each": each,
        "room": room,
        "bytes": size,
    }


def packed(values: NDArray[Any]) -> Json:
    """An array as bytes from its lowest to its highest value: finer than any colour."""
    numbers = np.nan_to_num(np.asarray(values, dtype=np.float64))
    low, high = (float(numbers.min()), float(numbers.max())) if numbers.size else (0.0, 0.0)
    scale = 255 / (high - low) if high > low else 0.0
    data = np.rint((numbers - low) * scale).astype(np.uint8)
    return {
        "shape": list(numbers.shape),
        "low": low,
        "high": high,
        "data": base64.b64encode(data.tobytes()).decode(),
    }


def listed(values: NDArray[Any]) -> list[float]:
    """A short array as a list of numbers with as many digits as a figure can show."""
    return [float(f"{one:.4g}") for one in np.nan_to_num(np.asarray(values, dtype=np.float64))]
