"""Evenly spaced tokens as views of a tensor: to read them, and to add to them.

Shapes: Z rows, T tokens; in a tile G = rows · groups.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from mnemoscope.memories.pattern import Part, Span


def cuts(part: Part, rows: int, room: int) -> Iterator[tuple[slice, int, int]]:
    """Cut a part into rows, a first group and a number of groups that fit the room if they can."""
    count = part.queries.groups
    fits = max(1, room // (part.queries.items * part.keys.items))
    some, together = min(fits, count), max(1, fits // count)
    for top in range(0, rows, together):
        for first in range(0, count, some):
            yield slice(top, min(top + together, rows)), first, min(some, count - first)


def groups(span: Span, first: int, count: int) -> Span:
    """Some of the groups of a span."""
    return Span(span.start + first * span.step, count, span.step, span.items, span.stride)


def view(of: Tensor, rows: slice, span: Span) -> Tensor:
    """The places of a span as a view (rows, groups, items, …) of a contiguous (Z, T, …)."""
    token = of.stride(1)
    shape = (rows.stop - rows.start, span.groups, span.items, *of.shape[2:])
    strides = (of.stride(0), span.step * token, span.stride * token, *of.stride()[2:])
    start = of.storage_offset() + rows.start * of.stride(0) + span.start * token
    return of.as_strided(shape, strides, start)


def take(of: Tensor, rows: slice, span: Span) -> Tensor:
    """The places of a span, (G, items, …), copied unless they lie in memory as they should."""
    return view(of, rows, span).flatten(0, 1)


def add(to: Tensor, rows: slice, span: Span, values: Tensor) -> None:
    """Add values (G, items, E) at the places of a span, whose groups may overlap."""
    values = values.view(-1, span.groups, *values.shape[1:])
    # Windows overlap where the step is shorter: one addition for each piece of a step.
    overlap = span.groups > 1 and span.stride == 1 and span.step < span.items
    width = span.step if overlap else span.items
    for offset in range(0, span.items, width):
        piece = Span(span.start + offset, span.groups, span.step, width, span.stride)
        view(to, rows, piece).add_(values[:, :, offset : offset + width])
