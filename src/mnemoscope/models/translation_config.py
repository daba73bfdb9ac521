"""What can be said of a model that reads a source before it speaks. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field, model_validator

from mnemoscope.models.config import MOST_LAYERS, ModelConfig

if TYPE_CHECKING:
    from mnemoscope.models.model import SequenceModel


class Sourced(ModelConfig):
    """An encoder reads the source; what it remembers is the state the decoder starts from."""

    reads_source: ClassVar[bool] = True

    source_vocab: int = Field(ge=2, description="how many token ids the source has")
    embeddings: Literal["separate", "tied", "shared"] = Field(
        "tied", description="tied = read out as it reads; shared = the source's too"
    )
    width: int = Field(128, ge=1, description="size of the vector per token")

    @model_validator(mode="after")
    def _shares(self) -> Self:
        if self.embeddings == "shared" and self.source_vocab != self.vocab:
            raise ValueError(
                f"shared embeddings need one vocabulary, but the source has {self.source_vocab} "
                f"tokens and the target {self.vocab}: take embeddings=tied or vocabulary=joint"
            )
        if self.embeddings != "separate" and self.outputs not in (None, self.vocab):
            raise ValueError("a tied readout says what it reads: leave outputs unset")
        return self


class RecurrentPair(Sourced):
    """Two recurrent networks, one that reads and one that speaks."""

    cell: Literal["rnn", "lstm", "gru"] = Field("gru", description="the cells of both networks")
    both_ways: bool = Field(True, description="read the source forwards and backwards")

    @model_validator(mode="after")
    def _halves(self) -> Self:
        if self.both_ways and self.width % 2:
            raise ValueError(f"width {self.width} is odd: each direction of reading takes half")
        return self

    def build(self) -> SequenceModel:
        """Return the encoder and the decoder."""
        from mnemoscope.models import seq2seq

        return seq2seq.build(self)


class OneVector(RecurrentPair):
    """The decoder starts from the encoder's last state and knows nothing else (Sutskever 2014)."""

    memory: Literal["vector"] = "vector"


class Bahdanau(RecurrentPair):
    """Before each word the decoder looks at all source words (Bahdanau 2015)."""

    memory: Literal["bahdanau"] = "bahdanau"


class Luong(RecurrentPair):
    """After each step the decoder looks at all source words (Luong 2015)."""

    memory: Literal["luong"] = "luong"
    feeding: bool = Field(False, description="what was found goes into the next step")


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
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        return self

    def build(self) -> SequenceModel:
        """Return the encoder and the decoder."""
        from mnemoscope.models import encoder_decoder

        return encoder_decoder.build(self)
