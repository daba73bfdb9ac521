"""How things show themselves: names, shapes and bytes, never all of their numbers. No torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence, Sized
from html import escape
from typing import Any, TypeVar

from mnemoscope.core.errors import shown

T = TypeVar("T")
# Fields that a short form names.
FIELDS = 6


def html_table(caption: str, titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A small table for notebooks."""
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><caption>{escape(caption)}</caption><tr>{head}</tr>{body}</table>"


def tensor_rows(tensors: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, str, str, str]]:
    """Name, shape, kind of numbers and bytes of each, as `TENSOR_TITLES` head them."""
    for name, one in tensors:
        kind = str(one.dtype).removeprefix("torch.")
        yield name, str(tuple(one.shape)), kind, f"{one.nbytes:,}"


TENSOR_TITLES = ("name", "shape", "dtype", "bytes")


def shows_itself(kind: type[T]) -> type[T]:
    """Let a dataclass of results print its fields by what they are: their shapes, or how many."""

    def short(self: Any) -> str:
        held = [f"{name} {said}" for name, said, _ in _fields(self)]
        more = [f"{len(held) - FIELDS} more"] if len(held) > FIELDS else []
        return f"{type(self).__name__}({', '.join(held[:FIELDS] + more)})"

    def table(self: Any) -> str:
        return html_table(type(self).__name__, ("name", "holds", "bytes"), _fields(self))

    kind.__repr__ = short  # type: ignore[method-assign]
    if not hasattr(kind, "_repr_html_"):
        kind._repr_html_ = table  # type: ignore[attr-defined]
    return kind


def _fields(thing: Any) -> Iterator[tuple[str, str, str]]:
    for field in dataclasses.fields(thing):
        value = getattr(thing, field.name)
        size = getattr(value, "nbytes", None)
        yield field.name, _what(value), "" if size is None else f"{size:,}"


def _what(value: Any) -> str:
    if hasattr(value, "shape"):
        return str(tuple(value.shape))
    if dataclasses.is_dataclass(value):
        return type(value).__name__
    if isinstance(value, str | bytes) or not isinstance(value, Sized):
        return shown(value)
    return f"{len(value)} items" if len(value) != 1 else "1 item"
