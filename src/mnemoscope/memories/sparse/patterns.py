"""Which earlier tokens a token attends to: the patterns of the Sparse Transformer (Child 2019).

One `Pattern` answers all questions about itself: the mask (for pictures and tests), the parts that
the fast path computes, the mask function of FlexAttention, the number of pairs, what has to be
retained while a stream goes on. It needs neither torch nor a length until asked; `allows` works on
numbers, numpy arrays and tensors alike.

With a stride l and c summaries, token i sees j ≤ i when

    local    i − j < l                        the last l tokens
    column   (i − j) mod l = 0                the same column of all rows above
    block    ⌊i/l⌋ = ⌊j/l⌋                    its own block
    summary  j mod l ≥ l − c, or j = i        the last c tokens of every block
    dense    always

`strided` is local+column, `fixed` is block+summary: sets joined by ``+`` share one softmax.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemoscope.core.errors import UserError, suggestion

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

SETS = ("local", "column", "block", "summary", "dense")
UNIONS = {"strided": ("local", "column"), "fixed": ("block", "summary")}
# A tile of about so many queries is large enough for fast products and wastes few pairs.
TILE = 64


@dataclass(frozen=True)
class Tiles:
    """Positions start + group·step + item·stride, for ``groups`` groups of ``items`` items."""

    start: int
    groups: int
    step: int
    items: int
    stride: int = 1

    def positions(self) -> Ints:
        """All positions, (groups, items)."""
        group, item = np.arange(self.groups)[:, None], np.arange(self.items)
        return self.start + group * self.step + item * self.stride


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
    opens: bool
    summaries: bool = False


@dataclass(frozen=True)
class Pattern:
    """A union of sets; ``context`` bounds how far back any of them reaches."""

    sets: tuple[str, ...]
    stride: int
    summaries: int = 1
    context: int | None = None

    def __post_init__(self) -> None:
        for name in self.sets:
            if name not in SETS:
                raise UserError(f"unknown set {name!r}; {suggestion(name, [*SETS, *UNIONS])}")
        if not self.sets or self.stride < 1 or not 1 <= self.summaries <= self.stride:
            raise UserError(
                "a pattern needs a set, a stride of at least 1 and between 1 and stride summaries; "
                f"got sets={self.sets} stride={self.stride} summaries={self.summaries}"
            )

    @classmethod
    def parse(
        cls, text: str, stride: int, summaries: int = 1, context: int | None = None
    ) -> Pattern:
        """Read ``strided``, ``local``, ``block+summary`` …"""
        names: list[str] = []
        for word in text.split("+"):
            names += UNIONS.get(word.strip(), (word.strip(),))
        chosen = set(names)
        unknown = [name for name in names if name not in SETS]
        # Names not known go last, so that the error above names them.
        return cls((*(one for one in SETS if one in chosen), *unknown), stride, summaries, context)

    @property
    def name(self) -> str:
        """The pattern as `parse` reads it."""
        return next((n for n, sets in UNIONS.items() if sets == self.sets), "+".join(self.sets))

    def allows(self, i: Any, j: Any) -> Any:
        """Whether token i attends to token j; both may be arrays or tensors that broadcast."""
        seen: Any = False
        for name in self.sets:
            seen = seen | self._in(name, i, j)
        seen = seen & (j <= i)
        return seen if self.context is None else seen & (i - j < self.context)

    def _in(self, name: str, i: Any, j: Any) -> Any:
        stride = self.stride
        match name:
            case "local":
                return i - j < stride
            case "column":
                return (i - j) % stride == 0
            case "block":
                return i // stride == j // stride
            case "summary":
                return (j % stride >= stride - self.summaries) | (i == j)
        return i - j >= 0

    def mask(self, length: int) -> Bools:
        """The whole pattern, (length, length): row i is what token i attends to."""
        position = np.arange(length)
        mask: Bools = self.allows(position[:, None], position[None, :])
        return mask

    def flex(self) -> Callable[[Any, Any, Any, Any], Any]:
        """Return the ``mask_mod`` of this pattern for torch's FlexAttention."""
        return lambda batch, head, query, key: self.allows(query, key)

    def pairs(self, length: int) -> int:
        """How many pairs (i, j) are attended to among ``length`` tokens, exactly."""
        position = np.arange(length)
        row, column = np.divmod(position, self.stride)
        if self.context is None or length <= self.context:
            match self.sets:
                case ("dense",):
                    return int((position + 1).sum())
                case ("local",):
                    return int(np.minimum(position + 1, self.stride).sum())
                case ("column",):
                    return int((row + 1).sum())
                case ("block",):
                    return int((column + 1).sum())
                case ("local", "column"):  # they share the token itself
                    return int((np.minimum(position + 1, self.stride) + row).sum())
                case ("block", "summary"):
                    return int((column + 1 + self.summaries * row).sum())
        rows = (self.allows(i, position[: i + 1]).sum() for i in position)
        return int(sum(rows))

    def retains(self, j: Any, now: Any) -> Any:
        """Whether any token from position ``now`` on can attend to token j, read before."""
        retained: Any = False
        reach = self.context or sys.maxsize
        for name in self.sets:
            apart = now - j
            match name:
                case "local":
                    seen: Any = apart < self.stride
                case "column":  # the next one to attend to it is a whole number of rows below
                    apart = -((j - now) // self.stride) * self.stride
                    seen = apart > 0
                case "block":
                    seen = now // self.stride == j // self.stride
                case "summary":
                    seen = j % self.stride >= self.stride - self.summaries
                case _:
                    seen = apart > 0
            retained = retained | (seen & (apart < reach))
        return retained

    def parts(self, length: int) -> list[Part] | None:
        """Cut the pattern into plain attentions that hold every pair once.

        ``length`` must be a multiple of the stride. None when there is no such cut: then the mask
        is all there is.
        """
        assert length % self.stride == 0
        if self.context is not None and length > self.context:
            return None
        match self.sets:
            case ("local",):
                return self._windows(length)
            case ("column",):
                return self._columns(length, strict=False)
            case ("block",):
                return self._blocks(length)
            case ("local", "column"):
                return [*self._windows(length), *self._columns(length, strict=True)]
            case ("summary",) | ("block", "summary"):
                return [*self._blocks(length), *self._earlier_summaries(length)]
        return None

    def _blocks(self, length: int) -> list[Part]:
        """Strips of each block; a strip sees the block up to its own end."""
        stride, groups, mask = self.stride, length // self.stride, self.mask(self.stride)
        parts = []
        for top in range(0, stride, TILE):
            bottom = min(top + TILE, stride)
            queries, keys = (Tiles(first, groups, stride, bottom - first) for first in (top, 0))
            parts.append(Part(queries, keys, ~mask[top:bottom, :bottom], opens=True))
        return parts

    def _windows(self, length: int) -> list[Part]:
        stride = self.stride
        # Half-full tiles waste half the work: queries come in parts of a stride where it divides.
        size = max((s for s in range(TILE // 2, TILE + 1) if stride % s == 0), default=stride)
        first = Tiles(0, 1, stride, min(stride, length))
        parts = [Part(first, first, ~np.tri(first.items, dtype=np.bool_), opens=True)]
        groups = (length - stride) // size
        if groups > 0:
            queries = Tiles(stride, groups, size, size)
            keys = Tiles(0, groups, size, size + stride)
            apart = queries.positions()[:1].T - keys.positions()[:1]
            parts.append(Part(queries, keys, (apart < 0) | (apart >= stride), opens=True))
        return parts

    def _columns(self, length: int, strict: bool) -> list[Part]:
        """Strips of rows; a strip sees all rows above, and itself up to (``strict``: before) i."""
        stride, rows, parts = self.stride, length // self.stride, []
        first = 1 if strict else 0
        for top in range(first, rows, TILE):
            bottom = min(top + TILE, rows)
            queries = Tiles(top * stride, stride, 1, bottom - top, stride)
            keys = Tiles(0, stride, 1, bottom - first, stride)
            row, key = np.arange(top, bottom)[:, None], np.arange(bottom - first)
            parts.append(Part(queries, keys, key > row - first, opens=not strict))
        return parts

    def _earlier_summaries(self, length: int) -> list[Part]:
        """Blocks form chapters: summaries of earlier chapters, then those within one's own."""
        stride, count, blocks = self.stride, self.summaries, length // self.stride
        size = max(1, 4 * TILE // stride)
        parts = []
        for first in range(size, blocks, size):
            queries = Tiles(first * stride, 1, 0, min(size, blocks - first) * stride)
            keys = Tiles(0, 1, 0, first * count)
            parts.append(Part(queries, keys, None, opens=False, summaries=True))
        whole, rest = divmod(blocks, size)
        for chapter, chapters, inside in ((0, whole, size), (whole, 1, rest)):
            if chapters and inside > 1:  # the first block of a chapter has none before it
                start = chapter * size
                queries = Tiles(
                    (start + 1) * stride, chapters, size * stride, (inside - 1) * stride
                )
                keys = Tiles(start * count, chapters, size * count, (inside - 1) * count)
                block, key = np.arange(queries.items) // stride, np.arange(keys.items) // count
                hidden = key > block[:, None]
                parts.append(Part(queries, keys, hidden, opens=False, summaries=True))
        return parts

    def summary_positions(self, length: int) -> Ints:
        """Where the summaries of all whole blocks stand, in order."""
        starts = np.arange(self.stride - self.summaries, length, self.stride)
        return (starts[:, None] + np.arange(self.summaries)).ravel()


def layer_patterns(
    text: str, layers: int, stride: int, summaries: int, context: int | None = None
) -> list[tuple[Pattern, ...]]:
    """Read a plan for all layers: for each layer one pattern per group of heads.

    Layers are parted by ``,`` and repeat when there are more; groups of heads by ``|``; sets that
    share one softmax by ``+``. ``column,local,local,local`` is the CIFAR-10 recipe of the paper.
    """
    plan = [
        tuple(
            Pattern.parse(group.strip(), stride, summaries, context) for group in layer.split("|")
        )
        for layer in text.split(",")
    ]
    return [plan[number % len(plan)] for number in range(layers)]


def hops(patterns: Sequence[Pattern], length: int) -> Ints:
    """Count the ways from token j to token i through the patterns, first layer first, (T, T).

    Two sparse masks multiply to a full one: where the product is positive, j reaches i. This is
    what makes a pattern *valid* (Child 2019, §4.2).
    """
    ways = np.eye(length, dtype=np.int64)
    for pattern in patterns:
        ways = pattern.mask(length).astype(np.int64) @ ways
    return ways


def reaches_all(patterns: Sequence[Pattern], length: int) -> bool:
    """Whether every token can learn of itself and of every token before it."""
    return bool((hops(patterns, length) > 0)[np.tri(length, dtype=np.bool_)].all())
