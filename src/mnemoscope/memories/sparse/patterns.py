"""Which earlier tokens a token attends to: the patterns of the Sparse Transformer (Child 2019).

One `Pattern` answers all questions about itself: the mask (for pictures and tests), the mask
function of FlexAttention, the number of pairs, what has to be retained while a stream goes on. It
needs neither torch nor a length until asked; `allows` works on numbers, numpy arrays and tensors
alike.

With a stride l and c summaries, token i sees j ≤ i when

    local    i − j < l                        the last l tokens
    column   (i − j) mod l = 0                the same column of all rows above
    block    ⌊i/l⌋ = ⌊j/l⌋                    its own block
    summary  j mod l ≥ l − c, or j = i        the last c tokens of every block
    dense    always

The heads of a layer may take different sub-blocks of c tokens for summaries, see `by_head`.
`strided` is local+column, `fixed` is block+summary: sets joined by ``+`` share one softmax.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemoscope.core.errors import UserError, suggestion

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

SETS = ("local", "column", "block", "summary", "dense")
UNIONS = {"strided": ("local", "column"), "fixed": ("block", "summary")}


@dataclass(frozen=True)
class Pattern:
    """A union of sets; ``context`` bounds how far back any of them reaches.

    Summaries are the last c tokens of a block or, with ``subblock`` k, the c tokens that k times c
    others follow in it.
    """

    sets: tuple[str, ...]
    stride: int
    summaries: int = 1
    context: int | None = None
    subblock: int = 0

    def __post_init__(self) -> None:
        for name in self.sets:
            if name not in SETS:
                raise UserError(f"unknown set {name!r}; {suggestion(name, [*SETS, *UNIONS])}")
        if not self.sets or self.stride < 1 or not 1 <= self.summaries <= self.stride:
            raise UserError(
                "a pattern needs a set, a stride of at least 1 and between 1 and stride summaries; "
                f"got sets={self.sets} stride={self.stride} summaries={self.summaries}"
            )
        if self.subblock < 0 or self.summary_columns[0] < 0:
            raise UserError(
                f"a block of {self.stride} tokens has no sub-block {self.subblock} of "
                f"{self.summaries} summaries: lower subblocks or summaries, or raise the stride"
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
        """The pattern as `parse` reads it, and which sub-block is seen where not the last."""
        name = next((n for n, sets in UNIONS.items() if sets == self.sets), "+".join(self.sets))
        return f"{name} −{self.subblock}" if self.subblock else name

    @property
    def summary_columns(self) -> tuple[int, int]:
        """The columns of a block that are summaries: from, and to without the last."""
        high = self.stride - self.subblock * self.summaries
        return high - self.summaries, high

    @property
    def reach(self) -> int:
        """How many tokens a window sees: a stride, or the context if that is less."""
        return min(self.stride, self.context or self.stride)

    def is_summary(self, j: Any) -> Any:
        """Whether token j is one that all later blocks see."""
        low, high = self.summary_columns
        return (j % self.stride >= low) & (j % self.stride < high)

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
                return self.is_summary(j) | (i == j)
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
                    seen = self.is_summary(j)
                case _:
                    seen = apart > 0
            retained = retained | (seen & (apart < reach))
        return retained


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


def by_head(groups: tuple[Pattern, ...], heads: int, subblocks: int) -> tuple[Pattern, ...]:
    """One pattern for each head where the heads of a group take sub-blocks of summaries in turn.

    Head h takes sub-block h mod ``subblocks``, counted from the end of the block, as the release of
    the paper does with ``num_verts``. Otherwise the groups as they are.
    """
    if subblocks == 1 or not any("summary" in group.sets for group in groups):
        return groups
    return tuple(
        replace(group, subblock=head % subblocks) if "summary" in group.sets else group
        for group in groups
        for head in range(heads // len(groups))
    )


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
