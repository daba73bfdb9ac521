"""What can be said of a Transformer-XL before it is built. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from mnemoscope.memories.config import TransformerBase

if TYPE_CHECKING:
    from torch import nn

    from mnemoscope.memories.compressive.compressor import Compressor
    from mnemoscope.memories.infinite.long_term import LongTerm


class Relative(TransformerBase):
    """Attention by distance over a cache of what every layer was given for the last tokens.

    Behind the cache there may be further memories, each taking what the one before lets go.
    """

    mem_len: int = Field(128, ge=0, description="tokens before the segment that are kept")

    def compressor(self) -> Compressor | None:
        """What turns tokens that leave the cache into fewer vectors, if anything does."""
        return None

    def long_term(self) -> LongTerm | None:
        """What keeps a signal of all that is older, if anything does."""
        return None

    def layer(self, index: int) -> nn.Module:
        """A block around attention by distance."""
        from mnemoscope.memories.block import Block
        from mnemoscope.memories.transformer_xl.attention import RelativeAttention

        return Block(self, RelativeAttention(self))

    @property
    def layer_weights(self) -> int:
        """One more projection: that of distances."""
        return super().layer_weights + self.width**2


class TransformerXL(Relative):
    """Transformer-XL; every layer keeps what it was given for the last tokens (Dai 2019)."""

    memory: Literal["transformer_xl"] = "transformer_xl"
