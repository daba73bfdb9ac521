"""What can be said of a Compressive Transformer before it is built. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from mnemoscope.memories.transformer_xl.config import Relative

if TYPE_CHECKING:
    from mnemoscope.memories.compressive.compressor import Compressor

Loss = Literal["attention", "autoencoding", "none"]


class Compressing(Relative):
    """A cache whose oldest tokens are compressed."""

    compressed_len: int = Field(128, ge=0, description="compressed vectors in the state")
    rate: int = Field(4, ge=1, description="tokens compressed into one vector")
    compression: Literal["convolution", "mean", "max", "most-used"] = Field(
        "convolution", description="how tokens are compressed"
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

    def compressor(self) -> Compressor | None:
        """One for every layer, if there is a queue of compressed vectors."""
        from mnemoscope.memories.compressive.compressor import Compressor

        return Compressor(self) if self.compressed_len > 0 else None

    @property
    def layer_weights(self) -> int:
        """The convolution comes on top."""
        learned = self.compressed_len > 0 and self.compression == "convolution"
        return super().layer_weights + (self.rate * self.width**2 if learned else 0)


class Compressive(Compressing):
    """Compressive Transformer; a second queue of squeezed tokens behind the cache (Rae 2019)."""

    memory: Literal["compressive"] = "compressive"
    compressed_len: int = Field(128, ge=1, description="compressed vectors in the state")
