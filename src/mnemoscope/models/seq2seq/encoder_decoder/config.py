"""What can be said of an encoder-decoder Transformer before it is built. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from mnemoscope.memories.config import MOST_LAYERS, check_heads
from mnemoscope.models.footprint import check as check_size
from mnemoscope.models.seq2seq.config import Sourced

if TYPE_CHECKING:
    from mnemoscope.models.model import SequenceModel


class EncoderDecoder(Sourced):
    """The Transformer of "Attention is all you need" (Vaswani 2017)."""

    memory: Literal["encoder_decoder"] = "encoder_decoder"
    layers: int = Field(
        2, ge=1, le=MOST_LAYERS, description="layers of the encoder, and of the decoder"
    )
    heads: int = Field(4, ge=1, description="attention heads; must divide width")
    mlp_ratio: int = Field(4, ge=1, description="width of the feed-forward layer, in widths")
    norm: Literal["pre", "post"] = Field(
        "pre", description="normalise before each part, or after its sum as the paper did"
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_heads(self.width, self.heads, None)
        return self

    def build(self) -> SequenceModel:
        """Return the encoder and the decoder."""
        from mnemoscope.models.seq2seq.encoder_decoder.model import EncoderDecoderModel

        check_size(self)
        return EncoderDecoderModel(self)

    @property
    def layer_weights(self) -> int:
        """Three attentions and two feed-forward layers, of the encoder and of the decoder."""
        return (12 + 4 * self.mlp_ratio) * self.width**2
