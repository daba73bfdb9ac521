"""What all views of a memory give: shares of tokens, and panels that draw what is held.

Shapes: H heads, T tokens of the segment just read, N tokens read so far, S positions of a memory.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemoscope.activations.hooks import Seen
from mnemoscope.activations.streams.blank import Blank
from mnemoscope.core.errors import UserError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Json = dict[str, Any]

# Of weights (H, T, S): those of one head, or their mean, (T, S).
Pick = Callable[[Tensor], Tensor]


def mean_of_heads(weights: Tensor) -> Tensor:
    """What a page shows of all heads together."""
    return weights.mean(0)


@dataclass(frozen=True, eq=False)
class Part:
    """One thing that remembers, and what it is about at every token of the segment.

    shares  (T, N)  how much of it each token read so far makes up; a row adds up to at most 1
    heads   how many heads it has that can be looked at one by one, 0 when it does not attend
    """

    layer: int
    name: str
    shares: Floats
    heads: int = 0


class View(Protocol):
    """Watches one layer while a model reads; it may remember what it saw of earlier segments."""

    def sites(self) -> list[str]:
        """Sites of the model that have to be watched."""

    def parts(self, seen: Seen, before: Any, first: int, new: int, pick: Pick) -> list[Part]:
        """Which tokens the layer used for ``new`` tokens after ``first`` others.

        ``before`` is its state, None at the start of a stream.
        """

    def panels(self, seen: Seen, before: Any, after: Any, first: int, new: int) -> list[Json]:
        """What the layer holds now; a panel is plain JSON with a ``kind``."""

    def blanked(self, state: Any, blank: Blank, read: int) -> Any:
        """Its state after ``read`` tokens with some of it taken away; a copy."""


def spread(weights: Floats, first: Ints, each: Ints | int, total: int) -> Floats:
    """Hand weights of positions (T, S) to the tokens they stand for: (T, N).

    Position s stands for ``each`` tokens from ``first[s]`` on, which share its weight evenly; no
    two positions stand for the same token.
    """
    shares = np.zeros((len(weights), total))
    widths = np.broadcast_to(each, first.shape)
    for width in np.unique(widths):
        some = widths == width
        for step in range(width):
            shares[:, first[some] + step] = weights[:, some] / width
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


def visible_without(visible: Tensor | None, like: Tensor, gone: NDArray[np.bool_]) -> Tensor:
    """Which of the tokens in a state (1, S, …) can be attended to once some are ``gone`` (S,)."""
    if visible is None:
        visible = torch.ones(1, len(gone), dtype=torch.bool, device=like.device)
    return visible & ~torch.from_numpy(gone).to(like.device)


def one_of(tensor: Tensor, axis: int, unit: int) -> Tensor:
    """A copy with zeros at one place along an axis."""
    if not 0 <= unit < tensor.shape[axis]:
        raise UserError(f"there is no entry {unit + 1} among {tensor.shape[axis]}")
    copy = tensor.clone()
    copy.select(axis, unit).zero_()
    return copy


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
