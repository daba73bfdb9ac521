"""What can be said of an ∞-former before it is built. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from mnemoscope.core.config import Config
from mnemoscope.memories.compressive.config import Compressing

if TYPE_CHECKING:
    from mnemoscope.memories.infinite.long_term import LongTerm


class Signal(Config):
    """How a continuous signal is fitted, attended to and written: alike in every model."""

    basis: int = Field(64, ge=2, description="basis functions, hence vectors, of the signal")
    spread: float = Field(1.0, gt=0, description="width of a basis function, in distances")
    widths: tuple[float, ...] | None = Field(
        None, min_length=1, description="fixed widths instead, such as 0.005,0.01 of the release"
    )
    fit: Literal["length", "count"] = Field(
        "length",
        description="what a token counts in the fit: the length of axis it stands for, or, as "
        "published, as much as any point",
    )
    penalty: float = Field(
        default_factory=lambda given: 0.5 if given.get("fit") == "count" else 0.01,
        gt=0,
        description="of the ridge regression that fits the signal; 0.01, by count 0.5",
    )
    samples: int | None = Field(
        None,
        ge=1,
        description="points at which the old signal is read; none = four a function, by count one",
    )
    contraction: Annotated[float, Field(gt=0, lt=1)] | Literal["equal"] = Field(
        "equal", description="share the old signal keeps; equal = the same for every chunk"
    )
    sticky: bool = Field(False, description="keep more of what attention went to")
    bins: int = Field(128, ge=1, description="parts of the signal whose attention is counted")
    density: Literal["gaussian", "sparse", "gibbs"] = Field(
        "gaussian", description="density with which a query attends to the signal"
    )
    domain: Literal["unit", "line"] = Field(
        default_factory=lambda given: "line" if given.get("fit") == "count" else "unit",
        description="where densities live: unit = [0, 1], where the signal is fitted; line = as "
        "published, everywhere, which suits a fit by count, since that regresses to zeros outside",
    )
    floor: float = Field(1e-4, gt=0, description="smallest variance of a density")
    variance: Literal["add", "clamp"] = Field(
        "add",
        description="how variances stay above it: added to all, or, as published, all below it "
        "replaced, which leaves those without a gradient",
    )
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
            unused = changed & {
                "spread", "widths", "floor", "variance", "kl", "kl_width", "kl_centre", "bins"
            }  # fmt: skip
            if unused:
                raise ValueError(f"the gibbs density has no use for {sorted(unused)[0]}")
        if "bins" in changed and not self.sticky:
            raise ValueError("bins count attention for sticky memories: set sticky as well")
        return self

    @property
    def sampled(self) -> int:
        """Points at which the old signal is read."""
        return self.samples or self.basis * (1 if self.fit == "count" else 4)


class Infinite(Signal, Compressing):
    """∞-former; what leaves the cache lives on in a signal of fixed size (Martins 2022)."""

    memory: Literal["infinite"] = "infinite"
    compressed_len: int = Field(
        0, ge=0, description="compressed vectors between cache and signal; 0 = none"
    )
    chunk: int = Field(64, ge=1, description="tokens written to the signal at once")

    def long_term(self) -> LongTerm:
        """One signal for every layer."""
        from mnemoscope.memories.infinite.long_term import LongTerm

        return LongTerm(self)

    @property
    def layer_weights(self) -> int:
        """Three projections more, and the matrices that fit the signal, which nobody learns."""
        fit = self.basis * ((self.sampled if self.sticky else self.basis) + self.chunk)
        return super().layer_weights + 3 * self.width**2 + fit
