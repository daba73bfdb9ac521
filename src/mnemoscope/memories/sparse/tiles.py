"""Tiles of evenly spaced tokens as views of a tensor: to read them, and to add to them.

Shapes: Z rows, T tokens; in a tile G = rows · groups.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from mnemoscope.memories.sparse.parts import Part, Tiles


def cuts(part: Part, rows: int, room: int) -> Iterator[tuple[slice, int, int]]:
    """Cut a part into rows, a first group and a number of groups that fit the room if they can."""
    count = part.queries.groups
    fits = max(1, room // (part.queries.items * part.keys.items))
    some, together = min(fits, count), max(1, fits // count)
    for top in range(0, rows, together):
        for first in range(0, count, some):
            yield slice(top, min(top + together, rows)), first, min(some, count - first)


def groups(tiles: Tiles, first: int, count: int) -> Tiles:
    """Some of the groups."""
    return Tiles(tiles.start + first * tiles.step, count, tiles.step, tiles.items, tiles.stride)


def view(of: Tensor, rows: slice, tiles: Tiles) -> Tensor:
    """The positions of tiles as a view (rows, groups, items, …) of a contiguous (Z, T, …)."""
    token = of.stride(1)
    shape = (rows.stop - rows.start, tiles.groups, tiles.items, *of.shape[2:])
    strides = (of.stride(0), tiles.step * token, tiles.stride * token, *of.stride()[2:])
    start = of.storage_offset() + rows.start * of.stride(0) + tiles.start * token
    return of.as_strided(shape, strides, start)


def take(of: Tensor, rows: slice, tiles: Tiles) -> Tensor:
    """The tokens of tiles, (G, items, …), copied unless they lie in memory as they should."""
    return view(of, rows, tiles).flatten(0, 1)


def add(to: Tensor, rows: slice, tiles: Tiles, values: Tensor) -> None:
    """Add values (G, items, E) at the positions of tiles, which may overlap."""
    values = values.view(-1, tiles.groups, *values.shape[1:])
    # Windows overlap where the step is shorter: one addition for each part of a step.
    overlap = tiles.groups > 1 and tiles.stride == 1 and tiles.step < tiles.items
    width = tiles.step if overlap else tiles.items
    for offset in range(0, tiles.items, width):
        items = min(width, tiles.items - offset)
        part = Tiles(tiles.start + offset, tiles.groups, tiles.step, items, tiles.stride)
        view(to, rows, part).add_(values[:, :, offset : offset + items])
