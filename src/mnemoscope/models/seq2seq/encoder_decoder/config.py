"""What can be said of an encoder-decoder Transformer before it is built. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from mnemoscope.models.encoder.config import EncoderStack
from mnemoscope.models.footprint import check as check_size
from mnemoscope.models.seq2seq.config import Sourced

if TYPE_CHECKING:
    from mnemoscope.models.model import SequenceModel


class EncoderDecoder(EncoderStack, Sourced):
    """The Transformer of "Attention is all you need" (Vaswani 2017)."""

    memory: Literal["encoder_decoder"] = "encoder_decoder"

    def build(self) -> SequenceModel:
        """Return the encoder and the decoder."""
        from mnemoscope.models.seq2seq.encoder_decoder.model import EncoderDecoderModel

        check_size(self)
        return EncoderDecoderModel(self)

    @property
    def layer_weights(self) -> int:
        """Three attentions and two feed-forward layers, of the encoder and of the decoder."""
        return (12 + 4 * self.mlp_ratio) * self.width**2
