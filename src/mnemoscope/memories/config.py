"""What can be said of a model before it is built. Imports no torch, so mistakes show at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from mnemoscope.core.config import MOST_LAYERS, Config
from mnemoscope.core.registry import load

if TYPE_CHECKING:
    from torch import nn

    from mnemoscope.memories.positions import Positions
    from mnemoscope.models.model import SequenceModel


# An option of all Transformers.
Recompute = Annotated[
    bool,
    Field(
        description="keep only the input of each layer and compute the rest again in the backward "
        "pass: the same gradients for less memory and a third more time"
    ),
]


class ModelConfig(Config):
    """What every model has, whatever its memory.

    A memory says what one ``layer`` is and, where they are not as here, its ``position_encoding``
    and whether a ``final_norm`` follows the last layer.
    """

    # Whether ``encode(source)`` must come before the first token.
    reads_source: ClassVar[bool] = False
    # Whether the output of the last layer is normalised before it is read out.
    final_norm: ClassVar[bool] = False

    memory: str
    vocab: int = Field(ge=2, description="how many token ids it reads")
    outputs: int | None = Field(None, ge=1, description="how many it can say; none = vocab")
    width: int = Field(64, ge=1, description="size of the vector per token")
    layers: int = Field(1, ge=1, le=MOST_LAYERS, description="how many layers lie on each other")
    dropout: float = Field(0.0, ge=0, lt=1, description="share of activations dropped in training")
    readout: Literal["every", "last"] = Field(
        "every", description="answer at every token (many to many) or after the last (many to one)"
    )

    def layer(self, index: int) -> nn.Module:
        """Return layer ``index`` with fresh weights, drawn from torch's current random state.

        It is called as ``layer(vectors, state, context) -> (vectors, state)``.
        """
        raise NotImplementedError(f"{type(self).__name__} must define layer(index)")

    def position_encoding(self) -> Positions:
        """How tokens are told where they stand: by default not at all."""
        from mnemoscope.memories.positions import Positions

        return Positions("none", self.width)

    def build(self) -> SequenceModel:
        """Return the model with fresh weights.

        A class may define its own instead of ``layer``, as memories for version 0.1 did.
        """
        # Models lie above memories: found by name, as all that is registered, and not imported.
        model: SequenceModel = load("mnemoscope.models.model:build")(self)
        return model

    @property
    def layer_weights(self) -> int:
        """About how many numbers a layer learns, without biases; 0 when nobody says."""
        return 0

    @property
    def table_rows(self) -> int:
        """Vectors of one width each outside the layers: tokens read, said, learned positions."""
        return self.vocab + (self.outputs or self.vocab)

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
        """How many tokens back a layer attends, None when to all of them."""
        return None


def check_heads(width: int, heads: int, positions: str | None) -> None:
    """Raise `ValueError` unless heads share the width, in pairs where positions are rotary."""
    if width % heads:
        raise ValueError(f"width {width} is not a multiple of heads {heads}")
    if positions == "rotary" and (width // heads) % 2:
        raise ValueError(f"rotary positions turn pairs: width / heads = {width // heads} is odd")


class TransformerBase(ModelConfig):
    """Pre-norm blocks of attention and feed-forward; what they attend to is the memory."""

    final_norm: ClassVar[bool] = True

    heads: int = Field(4, ge=1, description="attention heads; must divide width")
    mlp_ratio: float = Field(4, gt=0, description="width of the feed-forward layer, in widths")
    tied: bool = Field(False, description="read out with the embedding's weights")
    recompute: Recompute = False

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_heads(self.width, self.heads, getattr(self, "positions", None))
        if self.inner < 1:
            raise ValueError(
                f"mlp_ratio {self.mlp_ratio:g} leaves no feed-forward layer at this width"
            )
        if self.tied and self.outputs not in (None, self.vocab):
            raise ValueError("a tied readout says what it reads: leave outputs unset")
        return self

    @property
    def inner(self) -> int:
        """Units of the feed-forward layer."""
        return round(self.mlp_ratio * self.width)

    @property
    def layer_weights(self) -> int:
        """Projections of queries, keys, values and output, and the feed-forward layer."""
        return 4 * self.width**2 + 2 * self.width * self.inner

    @property
    def table_rows(self) -> int:
        """Tokens read and, unless tied, tokens said."""
        return self.vocab if self.tied else super().table_rows
