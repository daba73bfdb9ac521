"""A pattern cut into parts: plain attentions between evenly spaced positions, every pair in one.

Queries come in strips of some 64. Keys that all queries of a strip see need no mask; those at the
edges, the newest and, where a window or the context ends, the oldest, have one. Strips whose keys
lie alike are groups of one part, so masks stay small however long the sequence is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from mnemoscope.memories.sparse.patterns import Bools, Ints, Pattern

# A tile of about so many queries is large enough for fast products and wastes few pairs.
TILE = 64
# So many keys are faster in one product with a mask than in three, of which two have one.
FEW = 4 * TILE


@dataclass(frozen=True)
class Tiles:
    """Positions start + group·step + item·stride, for ``groups`` groups of ``items`` items."""

    start: int
    groups: int
    step: int
    items: int
    stride: int = 1

    def first(self) -> Ints:
        """The positions of the first group, (items,)."""
        return self.start + np.arange(self.items) * self.stride

    def positions(self) -> Ints:
        """All positions, (groups, items)."""
        return self.first() + np.arange(self.groups)[:, None] * self.step


@dataclass(frozen=True)
class Part:
    """Plain attention of groups of queries over groups of keys, group by group.

    ``hidden`` (queries, keys) marks pairs that are not attended to, None when all are. A part that
    ``opens`` is the first to meet its queries. With ``summaries`` the keys are positions among
    the summaries of all blocks, put side by side.
    """

    queries: Tiles
    keys: Tiles
    hidden: Bools | None
    opens: bool = False
    summaries: bool = False


@dataclass(frozen=True)
class Range:
    """Keys of a strip, ``last`` not included; ``clear`` if all its queries see all of them."""

    first: int
    last: int
    clear: bool = False


def cut(pattern: Pattern, length: int) -> list[Part]:
    """Parts that hold every pair among ``length`` tokens, a multiple of the stride, once."""
    assert length % pattern.stride == 0
    sets = pattern.sets
    if "dense" in sets:
        parts = _windows(length, pattern.context or length)
    elif sets == ("column",):
        parts = _columns(pattern, length, strict=False)
    else:
        # A window holds the token's own block as far as it goes.
        windows = "local" in sets
        parts = _windows(length, pattern.reach) if windows else _blocks(pattern, length)
        if "column" in sets:
            parts += _columns(pattern, length, strict=True)
        if "summary" in sets:
            parts += _earlier_summaries(pattern, length)
    return sorted(parts, key=lambda part: not part.opens)


def _ranges(first: int, clear: int, until: int, last: int) -> list[Range]:
    """Keys of a strip, of which those from ``clear`` to ``until`` are seen by all its queries."""
    if last - first <= FEW or until - clear < TILE:
        return [Range(first, last)] if first < last else []
    cuts = Range(first, clear), Range(clear, until, clear=True), Range(until, last)
    return [one for one in cuts if one.first < one.last]


def _windows(length: int, window: int) -> list[Part]:
    """Strips of queries over the last ``window`` tokens."""
    size = min(window, TILE)
    strips = []
    for top in range(0, length, size):
        bottom = min(top + size, length)
        ranges = _ranges(max(0, top - window), max(0, bottom - window), top, bottom)
        strips += [(top, bottom, one) for one in ranges]
    parts = []
    for top, bottom, keys, groups in _alike(strips, size):
        asked = Tiles(top, groups, size, bottom - top)
        seen = Tiles(keys.first, groups, size, keys.last - keys.first)
        hidden = None
        if not keys.clear:
            apart = asked.first()[:, None] - seen.first()
            hidden = (apart < 0) | (apart >= window)
        parts.append(Part(asked, seen, hidden, opens=keys.last == bottom))
    return parts


def _blocks(pattern: Pattern, length: int) -> list[Part]:
    """Strips of each block; a strip sees the block up to its own end."""
    stride, reach, groups = pattern.stride, pattern.reach, length // pattern.stride
    parts = []
    for top in range(0, stride, TILE):
        bottom = min(top + TILE, stride)
        first = max(0, top - reach + 1)
        clear = max(0, bottom - reach) if "block" in pattern.sets else top
        for keys in _ranges(first, clear, top, bottom):
            asked = Tiles(top, groups, stride, bottom - top)
            seen = Tiles(keys.first, groups, stride, keys.last - keys.first)
            hidden = None
            if not keys.clear:
                hidden = ~pattern.allows(asked.first()[:, None], seen.first())
            parts.append(Part(asked, seen, hidden, opens=keys.last == bottom))
    return parts


def _columns(pattern: Pattern, length: int, strict: bool) -> list[Part]:
    """Strips of rows; a strip sees rows above, and itself up to (``strict``: before) i."""
    stride, rows = pattern.stride, length // pattern.stride
    back = (min(pattern.context or length, length) - 1) // stride
    size, itself = min(TILE, max(TILE // 4, back + 1)), 0 if strict else 1
    # A column of summaries is seen as such already.
    low, high = pattern.summary_columns if "summary" in pattern.sets else (stride, stride)
    columns = [(start, count) for start, count in ((0, low), (high, stride - high)) if count]
    parts = []
    for top in range(1 - itself, rows if back or itself else 0, size):
        bottom = min(top + size, rows)
        ends = max(0, top - back), max(0, bottom - 1 - back), top, bottom - 1 + itself
        for keys in _ranges(*ends):
            count = keys.last - keys.first
            hidden = None
            if not keys.clear:
                apart = np.arange(top, bottom)[:, None] - np.arange(keys.first, keys.last)
                hidden = (apart < 1 - itself) | (apart > back)
            for start, groups in columns:
                asked = Tiles(top * stride + start, groups, 1, bottom - top, stride)
                seen = Tiles(keys.first * stride + start, groups, 1, count, stride)
                opens = not strict and keys.last == bottom
                parts.append(Part(asked, seen, hidden, opens))
    return parts


def _earlier_summaries(pattern: Pattern, length: int) -> list[Part]:
    """Blocks form chapters, which see the summaries of earlier blocks, counted in blocks here."""
    stride, count, blocks = pattern.stride, pattern.summaries, length // pattern.stride
    low, high = pattern.summary_columns
    context = pattern.context or length
    # A window has seen the nearest ones already.
    nearest = pattern.reach if "local" in pattern.sets else 1
    size = max(1, 4 * TILE // stride)
    strips = []
    for top in range(0, blocks, size):
        bottom = min(top + size, blocks)
        # From the first block of which any query sees a summary; of those from clear until until,
        # all queries see all.
        first = max(0, (top * stride - (high - 1) - context) // stride + 1)
        clear = max(0, (bottom * stride - 1 - low - context) // stride + 1)
        until = max(0, (top * stride - (high - 1) - nearest) // stride + 1)
        clear = min(clear, until)
        for keys in (Range(first, clear), Range(clear, until, True), Range(until, bottom - 1)):
            if keys.first < keys.last:
                strips.append((max(top, keys.first + 1), bottom, keys))
    parts = []
    for top, bottom, keys, groups in _alike(strips, size):
        asked = Tiles(top * stride, groups, size * stride, (bottom - top) * stride)
        seen = Tiles(keys.first * count, groups, size * count, (keys.last - keys.first) * count)
        hidden = None
        if not keys.clear:
            i, (block, number) = asked.first()[:, None], np.divmod(seen.first(), count)
            apart = i - (block * stride + low + number)
            hidden = (block >= i // stride) | (apart >= context) | (apart < nearest)
        parts.append(Part(asked, seen, hidden, summaries=True))
    return sorted(parts, key=lambda part: part.hidden is not None)


def _alike(
    strips: Iterable[tuple[int, int, Range]], step: int
) -> Iterator[tuple[int, int, Range, int]]:
    """Strips (top, bottom, keys), those that lie alike one after the other put together.

    Yields the first of them, and how many there are, each ``step`` after the one before.
    """
    runs: dict[tuple[int, ...], list[tuple[int, int, Range, int]]] = {}
    for top, bottom, keys in strips:
        place = bottom - top, keys.first - top, keys.last - top, keys.clear
        found = runs.setdefault(place, [])
        if found and found[-1][0] + found[-1][3] * step == top:
            found[-1] = (*found[-1][:3], found[-1][3] + 1)
        else:
            found.append((top, bottom, keys, 1))
    for found in runs.values():
        yield from found


def summary_positions(pattern: Pattern, length: int) -> Ints:
    """Where the summaries of all whole blocks stand, in order."""
    low, high = pattern.summary_columns
    return (np.arange(0, length, pattern.stride)[:, None] + np.arange(low, high)).ravel()
