"""What can be said of an ∞-former before it is built. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from mnemoscope.memories.compressive.config import Compressing

if TYPE_CHECKING:
    from mnemoscope.memories.infinite.long_term import LongTerm


class Infinite(Compressing):
    """∞-former; what leaves the cache lives on in a signal of fixed size (Martins 2022)."""

    memory: Literal["infinite"] = "infinite"
    compressed_len: int = Field(
        0, ge=0, description="compressed vectors between cache and signal; 0 = none"
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
        "equal", description="share the old signal keeps; equal = the same for every chunk"
    )
    sticky: bool = Field(False, description="keep more of what attention went to")
    bins: int = Field(128, ge=1, description="parts of the signal whose attention is counted")
    density: Literal["gaussian", "sparse", "gibbs"] = Field(
        "gaussian", description="density with which a query attends to the signal"
    )
    floor: float = Field(1e-4, gt=0, description="smallest variance of a density")
    gate: bool = Field(False, description="let a learned gate decide what is written")
    kl: float = Field(
        0.0, ge=0, description="weight of the KL divergence that keeps densities narrow"
    )
    kl_width: float = Field(0.05, gt=0, description="standard deviation that it draws densities to")
    kl_centre: float | None = Field(None, description="mean it draws them to; none = any")

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

    def long_term(self) -> LongTerm:
        """One signal for every layer."""
        from mnemoscope.memories.infinite.long_term import LongTerm

        return LongTerm(self)

    @property
    def layer_weights(self) -> int:
        """Three projections more, and the matrices that fit the signal, which nobody learns."""
        fit = self.basis * ((self.samples or self.basis) + self.chunk)
        return super().layer_weights + 3 * self.width**2 + fit
