"""A layer of a kind not known here: the tensors that it carries, and no more is claimed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from mnemoscope.activations.hooks import Seen
from mnemoscope.activations.streams.blank import Blank, emptied
from mnemoscope.activations.streams.views.view import Json, Part, Pick
from mnemoscope.core.errors import UserError

TENSORS = "tensors"


def tensors(layer: int, held: Iterable[tuple[str, Tensor]]) -> Json:
    """A panel that lists tensors by name, shape and bytes."""
    rows, total = [], 0
    for name, one in held:
        size = one.numel() * one.element_size()
        rows.append([name, " × ".join(map(str, one.shape)), size])
        total += size
    return {"kind": "tensors", "layer": layer, "title": TENSORS, "rows": rows, "bytes": total}


class PlainView:
    """Lists what one layer carries."""

    def __init__(self, number: int) -> None:
        self.number = number

    def sites(self) -> list[str]:
        """Nothing has to be watched."""
        return []

    def parts(self, seen: Seen, before: Any, first: int, new: int, pick: Pick) -> list[Part]:
        """Nobody can tell which tokens it uses."""
        return []

    def panels(self, seen: Seen, before: Any, after: Any, first: int, new: int) -> list[Json]:
        """The tensors of its state."""
        return [tensors(self.number, after.tensors())]

    def blanked(self, state: Any, blank: Blank, read: int) -> Any:
        """All of it or nothing: what stands where is not known."""
        if not blank.concerns(self.number, TENSORS):
            return state
        if blank.unit is not None or blank.tokens is not None:
            raise UserError(
                "nobody knows where this memory keeps what: blank the layer or the whole state"
            )
        return emptied(state)
