"""What can be said of a model before it is built. Imports no torch, so mistakes show at once."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from mnemoscope.core.config import Config
from mnemoscope.memories.pattern import Pattern, layer_patterns

if TYPE_CHECKING:
    from mnemoscope.models.model import SequenceModel


# Deeper than anything that has been trained; every one of them is a module.
MOST_LAYERS = 10_000


class ModelConfig(Config):
    """What every model has, whatever its memory."""

    # Whether ``encode(source)`` must come before the first token.
    reads_source: ClassVar[bool] = False

    memory: str
    vocab: int = Field(ge=2, description="how many token ids it reads")
    outputs: int | None = Field(None, ge=1, description="how many it can say; none = vocab")
    width: int = Field(64, ge=1, description="size of the vector per token")
    layers: int = Field(1, ge=1, le=MOST_LAYERS, description="how many layers lie on each other")
    dropout: float = Field(0.0, ge=0, lt=1, description="share of activations dropped in training")
    readout: Literal["every", "last"] = Field(
        "every", description="answer at every token (many to many) or after the last (many to one)"
    )

    @abstractmethod
    def build(self) -> SequenceModel:
        """Return the model with fresh weights, drawn from torch's current random state."""

    @property
    def looks_ahead(self) -> bool:
        """Whether what is said at a token depends on later ones."""
        return False

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


class TransformerBase(ModelConfig):
    """Pre-norm blocks of attention and feed-forward; what they look back at is the memory."""

    heads: int = Field(4, ge=1, description="attention heads; must divide width")
    mlp_ratio: float = Field(4, gt=0, description="width of the feed-forward layer, in widths")
    tied: bool = Field(False, description="read out with the embedding's weights")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        if self.inner < 1:
            raise ValueError(
                f"mlp_ratio {self.mlp_ratio:g} leaves no feed-forward layer at this width"
            )
        if self.tied and self.outputs not in (None, self.vocab):
            raise ValueError("a tied readout says what it reads: leave outputs unset")
        if getattr(self, "positions", None) == "rotary" and (self.width // self.heads) % 2:
            raise ValueError(
                f"rotary positions turn pairs: width / heads = {self.width // self.heads} is odd"
            )
        return self

    @property
    def inner(self) -> int:
        """Units of the feed-forward layer."""
        return round(self.mlp_ratio * self.width)

    def build(self) -> SequenceModel:
        """Return the stack of blocks."""
        from mnemoscope.models import transformer

        return transformer.build(self)


class Transformer(TransformerBase):
    """Decoder Transformer; it keeps keys and values of the last tokens."""

    memory: Literal["transformer"] = "transformer"
    positions: Literal["sinusoidal", "learned", "rotary", "none"] = Field(
        "rotary", description="how a token knows where it stands"
    )
    context: int = Field(
        1024, ge=2, description="tokens a layer looks back at; learned positions end there"
    )

    @property
    def limit(self) -> int | None:
        """Learned positions end; all others go on."""
        return self.context if self.positions == "learned" else None

    @property
    def reach(self) -> int:
        """Every layer looks back over the context."""
        return self.context


class Relative(TransformerBase):
    """Attention by distance over a cache of what every layer was given for the last tokens."""

    mem_len: int = Field(128, ge=0, description="tokens before the segment that are kept")


class TransformerXL(Relative):
    """Transformer-XL; every layer keeps what it was given for the last tokens (Dai 2019)."""

    memory: Literal["transformer_xl"] = "transformer_xl"


Loss = Literal["attention", "autoencoding", "none"]


class Squeezing(Relative):
    """A cache whose oldest tokens are squeezed together."""

    compressed_len: int = Field(128, ge=0, description="squeezed vectors that are kept")
    rate: int = Field(4, ge=1, description="tokens squeezed into one vector")
    compression: Literal["convolution", "mean", "max", "most-used"] = Field(
        "convolution", description="how tokens are squeezed"
    )
    rebuild: Loss | None = Field(
        None, description="what trains the convolution: attention (default), autoencoding, none"
    )

    @model_validator(mode="after")
    def _trains(self) -> Self:
        if self.rebuild not in (None, "none") and self.compression != "convolution":
            raise ValueError(f"compression {self.compression!r} has nothing that rebuild can train")
        return self

    @property
    def rebuilds(self) -> Loss:
        """The loss that trains the compressor."""
        if self.rebuild is None:
            return "attention" if self.compression == "convolution" else "none"
        return self.rebuild


class Compressive(Squeezing):
    """Compressive Transformer; a second queue of squeezed tokens behind the cache (Rae 2019)."""

    memory: Literal["compressive"] = "compressive"
    compressed_len: int = Field(128, ge=1, description="squeezed vectors that are kept")


class Infinite(Squeezing):
    """∞-former; what leaves the cache lives on in a signal of fixed size (Martins 2022)."""

    memory: Literal["infinite"] = "infinite"
    compressed_len: int = Field(
        0, ge=0, description="squeezed vectors between cache and signal; 0 = none"
    )
    chunk: int = Field(64, ge=1, description="tokens written to the signal at once")
    basis: int = Field(64, ge=2, description="basis functions, hence vectors, of the signal")
    spread: float = Field(1.0, gt=0, description="width of a basis function, in distances")
    widths: tuple[float, ...] | None = Field(
        None, min_length=1, description="fixed widths instead, such as 0.005,0.01 of the release"
    )
    penalty: float = Field(0.5, gt=0, description="of the ridge regression that fits the signal")
    samples: int | None = Field(
        None, ge=1, description="points at which the old signal is read; none = basis"
    )
    contraction: Annotated[float, Field(gt=0, lt=1)] | Literal["equal"] = Field(
        "equal", description="share of the signal the past keeps; equal = the same for every chunk"
    )
    sticky: bool = Field(False, description="keep more of what attention went to")
    bins: int = Field(128, ge=1, description="parts of the signal whose attention is counted")
    density: Literal["gaussian", "sparse", "gibbs"] = Field(
        "gaussian", description="how a query looks at the signal"
    )
    floor: float = Field(1e-4, gt=0, description="smallest variance of a look")
    gate: bool = Field(False, description="let a learned gate decide what is written")
    kl: float = Field(0.0, ge=0, description="weight of the KL divergence that keeps looks narrow")
    kl_width: float = Field(0.05, gt=0, description="standard deviation that it draws looks to")
    kl_centre: float | None = Field(None, description="place it draws them to; none = anywhere")

    @model_validator(mode="after")
    def _means_something(self) -> Self:
        if self.widths is not None and min(self.widths) <= 0:
            raise ValueError("widths must be positive")
        changed = {
            name
            for name, field in type(self).model_fields.items()
            if getattr(self, name) != field.default
        }
        if self.density == "gibbs":
            unused = changed & {"spread", "widths", "floor", "kl", "kl_width", "kl_centre", "bins"}
            if unused:
                raise ValueError(f"the gibbs density has no use for {sorted(unused)[0]}")
        if "bins" in changed and not self.sticky:
            raise ValueError("bins count attention for sticky memories: set sticky as well")
        return self


class Sparse(TransformerBase):
    """Sparse Transformer; every layer looks at some of the tokens before it (Child 2019)."""

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
    positions: Literal["rotary", "axes", "none"] = Field(
        "rotary", description="how a token knows where it stands; axes = a learned vector per axis"
    )
    axes: tuple[int, ...] | None = Field(
        None, description="sizes of the axes, the slowest first; none = rows of stride tokens"
    )
    context: int = Field(1024, ge=2, description="tokens a layer looks back at, at most")
    recompute: bool = Field(
        False, description="compute activations again in the backward pass, to save memory"
    )

    @model_validator(mode="after")
    def _looks(self) -> Self:
        for groups in self.patterns:
            if self.heads % len(groups):
                raise ValueError(f"{self.heads} heads cannot be shared by {len(groups)} patterns")
        if self.axes is not None and (self.positions != "axes" or min(self.axes, default=0) < 1):
            raise ValueError("axes are sizes of at least 1, and need positions=axes")
        return self

    @property
    def patterns(self) -> list[tuple[Pattern, ...]]:
        """For each layer, the patterns that its heads share."""
        return layer_patterns(self.pattern, self.layers, self.stride, self.summaries, self.context)

    @property
    def grid(self) -> tuple[int, ...]:
        """Sizes of the axes that learned positions count along."""
        return self.axes or (math.ceil(self.context / self.stride), self.stride)

    @property
    def limit(self) -> int | None:
        """Learned positions end; all others go on."""
        return math.prod(self.grid) if self.positions == "axes" else None

    @property
    def reach(self) -> int:
        """Every layer looks back over the context."""
        return self.context

    def build(self) -> SequenceModel:
        """Return the stack of blocks."""
        from mnemoscope.models import sparse

        return sparse.build(self)
