"""What can be said of an encoder on its own, before it is built. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from mnemoscope.core.config import MOST_LAYERS
from mnemoscope.memories.config import ModelConfig, Recompute, check_heads
from mnemoscope.models.footprint import check as check_size

if TYPE_CHECKING:
    from mnemoscope.models.model import SequenceModel


class EncoderStack(ModelConfig):
    """The layers of "Attention is all you need", of which an encoder is made (Vaswani 2017)."""

    width: int = Field(128, ge=1, description="size of the vector per token")
    layers: int = Field(
        2, ge=1, le=MOST_LAYERS, description="layers of the encoder, and of a decoder"
    )
    heads: int = Field(4, ge=1, description="attention heads; must divide width")
    mlp_ratio: int = Field(4, ge=1, description="width of the feed-forward layer, in widths")
    norm: Literal["pre", "post"] = Field(
        "pre", description="normalise before each part, or after its sum as the paper did"
    )
    recompute: Recompute = False

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_heads(self.width, self.heads, getattr(self, "positions", None))
        return self


class Encoder(EncoderStack):
    """The encoder of the translating Transformer, with a readout in place of a decoder."""

    memory: Literal["encoder"] = "encoder"
    positions: Literal["sinusoidal", "learned", "rotary", "none"] = Field(
        "sinusoidal", description="how a word knows where it stands"
    )
    context: int = Field(512, ge=2, description="words after which learned positions end")
    causal: bool = Field(False, description="see only what came before, as a language model must")

    @model_validator(mode="after")
    def _reads_out(self) -> Self:
        if self.outputs not in (None, self.vocab):
            raise ValueError("an encoder reads out as it reads: leave outputs unset")
        return self

    @property
    def limit(self) -> int | None:
        """Learned positions end; all others do not."""
        return self.context if self.positions == "learned" else None

    @property
    def looks_ahead(self) -> bool:
        """Every word attends to all others, unless causal."""
        return not self.causal

    def build(self) -> SequenceModel:
        """Return the stack of layers."""
        from mnemoscope.models.encoder.model import EncoderModel

        check_size(self)
        return EncoderModel(self)

    @property
    def layer_weights(self) -> int:
        """One attention and one feed-forward layer."""
        return (4 + 2 * self.mlp_ratio) * self.width**2

    @property
    def table_rows(self) -> int:
        """Tokens, said as they are read, and learned positions."""
        return self.vocab + (self.limit or 0)
