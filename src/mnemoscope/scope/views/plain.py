"""A layer of a kind not known here: the tensors that it carries, and no more is claimed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from mnemoscope.activations.hooks import Seen
from mnemoscope.scope.views.view import Json, Shown


def tensors(layer: int, held: Iterable[tuple[str, Tensor]]) -> Json:
    """A panel that lists tensors by name, shape and bytes."""
    rows, total = [], 0
    for name, one in held:
        size = one.numel() * one.element_size()
        rows.append([name, " × ".join(map(str, one.shape)), size])
        total += size
    return {"kind": "tensors", "layer": layer, "rows": rows, "bytes": total}


class PlainView:
    """Lists what one layer carries."""

    def __init__(self, number: int) -> None:
        self.number = number

    def sites(self) -> list[str]:
        """Nothing has to be watched."""
        return []

    def show(self, seen: Seen, before: Any, after: Any, first: int, new: int) -> Shown:
        """The tensors of its state."""
        return Shown([], [tensors(self.number, after.tensors())])
