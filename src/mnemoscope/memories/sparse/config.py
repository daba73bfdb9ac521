"""What can be said of a Sparse Transformer before it is built. Imports no torch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from mnemoscope.memories.config import TransformerBase
from mnemoscope.memories.sparse.patterns import Pattern, by_head, layer_patterns

if TYPE_CHECKING:
    from torch import nn

    from mnemoscope.memories.positions import Positions


class Sparse(TransformerBase):
    """Sparse Transformer; every layer attends to some of the tokens before it (Child 2019)."""

    memory: Literal["sparse"] = "sparse"
    pattern: str = Field(
        "strided",
        description="strided, fixed, local, column, block, summary, dense; "
        "a+b = one softmax, a|b = different heads, a,b = layers in turn",
    )
    stride: int = Field(32, ge=1, description="tokens of a row, of a block, of the local window")
    summaries: int = Field(
        default_factory=lambda given: min(8, given.get("stride", 8)),
        ge=1,
        description="last tokens of a block that all later ones see; by default 8, or the stride",
    )
    subblocks: int = Field(
        1,
        ge=1,
        description="sub-blocks of summaries that heads take in turn, from the end of the block; "
        "1 = all heads see the same, heads = each its own",
    )
    positions: Literal["rotary", "axes", "none"] = Field(
        "rotary", description="how a token knows where it stands; axes = a learned vector per axis"
    )
    axes: tuple[int, ...] | None = Field(
        None, description="sizes of the axes, the slowest first; none = rows of stride tokens"
    )
    context: int = Field(1024, ge=2, description="tokens a layer attends to, at most")

    @model_validator(mode="after")
    def _shares(self) -> Self:
        shared = set()
        for groups in self._groups:
            if self.heads % len(groups):
                raise ValueError(f"{self.heads} heads cannot be shared by {len(groups)} patterns")
            if any("summary" in group.sets for group in groups):
                shared.add(self.heads // len(groups))
        if self.subblocks > 1 and not shared:
            raise ValueError("subblocks are of summaries: use a pattern that has them, as fixed")
        if any(heads % self.subblocks for heads in shared):
            raise ValueError(
                f"subblocks {self.subblocks} must divide the heads of a pattern with summaries, "
                f"which are {' and '.join(map(str, sorted(shared)))}"
            )
        if self.subblocks * self.summaries > self.stride:
            raise ValueError(
                f"{self.subblocks} subblocks of {self.summaries} summaries do not fit into a block "
                f"of stride {self.stride}"
            )
        if self.axes is not None and (self.positions != "axes" or min(self.axes, default=0) < 1):
            raise ValueError("axes are sizes of at least 1, and need positions=axes")
        return self

    @property
    def patterns(self) -> list[tuple[Pattern, ...]]:
        """For each layer, the patterns that its heads share evenly."""
        return [by_head(groups, self.heads, self.subblocks) for groups in self._groups]

    @property
    def _groups(self) -> list[tuple[Pattern, ...]]:
        return layer_patterns(self.pattern, self.layers, self.stride, self.summaries, self.context)

    @property
    def grid(self) -> tuple[int, ...]:
        """Sizes of the axes that learned positions count along."""
        return self.axes or (math.ceil(self.context / self.stride), self.stride)

    @property
    def limit(self) -> int | None:
        """Learned positions end; all others do not."""
        return math.prod(self.grid) if self.positions == "axes" else None

    @property
    def reach(self) -> int:
        """Every layer attends over the context."""
        return self.context

    @property
    def table_rows(self) -> int:
        """Tokens, and learned vectors of the axes."""
        return super().table_rows + (sum(self.grid) if self.positions == "axes" else 0)

    def position_encoding(self) -> Positions:
        """Rotary, a learned vector per axis, or none."""
        from mnemoscope.memories.positions import Positions
        from mnemoscope.memories.sparse.attention import AxisPositions

        if self.positions == "axes":
            return AxisPositions(self.width, self.grid)
        return Positions(self.positions, self.width, head=self.width // self.heads)

    def layer(self, index: int) -> nn.Module:
        """A block whose heads share the patterns of this layer."""
        from mnemoscope.memories.block import Block
        from mnemoscope.memories.sparse.attention import SparseAttention

        patterns = self.patterns[index]
        return Block(self, SparseAttention(self.width, self.heads, patterns, self.dropout))
