"""What can be said of a decoder Transformer before it is built. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from mnemoscope.memories.config import TransformerBase

if TYPE_CHECKING:
    from torch import nn

    from mnemoscope.memories.positions import Positions


class Transformer(TransformerBase):
    """Decoder Transformer; it keeps keys and values of the last tokens."""

    memory: Literal["transformer"] = "transformer"
    positions: Literal["sinusoidal", "learned", "rotary", "none"] = Field(
        "rotary", description="how a token knows where it stands"
    )
    context: int = Field(
        1024, ge=2, description="tokens a layer attends to; learned positions end there"
    )

    @property
    def limit(self) -> int | None:
        """Learned positions end; all others do not."""
        return self.context if self.positions == "learned" else None

    @property
    def reach(self) -> int:
        """Every layer attends over the context."""
        return self.context

    @property
    def table_rows(self) -> int:
        """Tokens, and learned positions."""
        return super().table_rows + (self.limit or 0)

    def position_encoding(self) -> Positions:
        """One of four kinds."""
        from mnemoscope.memories.positions import Positions

        head = self.width // self.heads
        return Positions(self.positions, self.width, context=self.context, head=head)

    def layer(self, index: int) -> nn.Module:
        """A block around causal self-attention."""
        from mnemoscope.memories.block import Block
        from mnemoscope.memories.transformer.attention import SelfAttention

        attention = SelfAttention(self.width, self.heads, self.context, self.dropout)
        return Block(self, attention)
