"""What can be said of a model before it is built. Imports no torch, so mistakes show at once."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from mnemoscope.config import Config

if TYPE_CHECKING:
    from mnemoscope.models.model import SequenceModel


class ModelConfig(Config):
    """What every model has, whatever its memory."""

    memory: str
    vocab: int = Field(ge=2, description="how many token ids it reads")
    outputs: int | None = Field(None, ge=1, description="how many it can say; none = vocab")
    width: int = Field(64, ge=1, description="size of the vector per token")
    layers: int = Field(1, ge=1, description="how many layers lie on each other")
    dropout: float = Field(0.0, ge=0, lt=1, description="share of activations dropped in training")
    readout: Literal["every", "last"] = Field(
        "every", description="answer at every token (many to many) or after the last (many to one)"
    )

    @abstractmethod
    def build(self) -> SequenceModel:
        """Return the model with fresh weights, drawn from torch's current random state."""

    @property
    def limit(self) -> int | None:
        """Most tokens one stream can have, None when there is no end."""
        return None

    @property
    def reach(self) -> int | None:
        """How many tokens one look back takes in, None when all of them."""
        return None


class Recurrent(ModelConfig):
    """RNN, LSTM and GRU: layers of cells, the state is a vector or two per layer."""

    def build(self) -> SequenceModel:
        """Return the stack of recurrent layers."""
        from mnemoscope.models import recurrent

        return recurrent.build(self)


class RNN(Recurrent):
    """h' = tanh(W x + U h + b)."""

    memory: Literal["rnn"] = "rnn"


class LSTM(Recurrent):
    """A cell that input, forget and output gates guard."""

    memory: Literal["lstm"] = "lstm"
    # A gate that starts half open forgets half of everything per step (Jozefowicz 2015).
    forget_bias: float = Field(1.0, description="added to the forget gate's bias at the start")


class GRU(Recurrent):
    """One vector with a reset and an update gate."""

    memory: Literal["gru"] = "gru"


class Transformer(ModelConfig):
    """Pre-norm blocks of attention and feed-forward; what they look back at is the memory."""

    heads: int = Field(4, ge=1, description="attention heads; must divide width")
    hidden: int = Field(4, ge=1, description="width of the feed-forward layer, in widths")
    tied: bool = Field(False, description="read out with the embedding's weights")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        if self.tied and self.outputs not in (None, self.vocab):
            raise ValueError("a tied readout says what it reads: leave outputs unset")
        return self

    def build(self) -> SequenceModel:
        """Return the stack of blocks."""
        from mnemoscope.models import transformer

        return transformer.build(self)


class Attention(Transformer):
    """Decoder Transformer; it keeps keys and values of the last tokens."""

    memory: Literal["attention"] = "attention"
    positions: Literal["sinusoidal", "learned", "rotary", "none"] = Field(
        "rotary", description="how a token knows where it stands"
    )
    context: int = Field(
        1024, ge=2, description="tokens a layer looks back at; learned positions end there"
    )

    @model_validator(mode="after")
    def _turns(self) -> Self:
        if self.positions == "rotary" and (self.width // self.heads) % 2:
            raise ValueError(
                f"rotary positions turn pairs: width / heads = {self.width // self.heads} is odd"
            )
        return self

    @property
    def limit(self) -> int | None:
        """Learned positions end; all others go on."""
        return self.context if self.positions == "learned" else None

    @property
    def reach(self) -> int:
        """Every layer looks back over the context."""
        return self.context


class Cache(Transformer):
    """Transformer-XL; every layer keeps what it was given for the last tokens (Dai 2019)."""

    memory: Literal["cache"] = "cache"
    cached: int = Field(128, ge=1, description="tokens before the segment that are kept")
