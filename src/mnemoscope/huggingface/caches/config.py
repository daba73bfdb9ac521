"""What a compressed cache holds of the keys and values read. Imports no torch.

Every evicting cache holds ``budget`` tokens of each head between two segments; a segment itself is
attended to whole. They differ in nothing but which tokens these are.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from mnemoscope.core.config import Config
from mnemoscope.core.errors import UserError, suggestion

# More tokens than any model reads; every one of them is counted one by one.
_MOST = 1 << 24
# Bits of numbers that are packed.
PACKED_BITS = (8, 4, 2)
_RECENT = "of these, the last tokens read; none = half"

Budget = Annotated[int, Field(ge=2, le=_MOST, description="tokens whose keys and values are held")]


class KVOptions(Config):
    """Base of the options of all caches."""

    @property
    def label(self) -> str:
        """How such a cache is told from others: ``window, budget=128``."""
        first = next(iter(type(self).model_fields), None)
        said = "" if first is None else f", {first}={getattr(self, first)}"
        return f"{name_of(self)}{said}"


class Full(KVOptions):
    """Every key and value, as models do it by themselves."""


class Window(KVOptions):
    """The first few tokens and the last ones (StreamingLLM, arXiv 2309.17453)."""

    budget: Budget = 128
    sinks: int = Field(4, ge=0, le=_MOST, description="of these, the first tokens of the stream")

    @model_validator(mode="after")
    def _room(self) -> Self:
        if self.sinks >= self.budget:
            raise ValueError(
                f"sinks={self.sinks} leave no room in budget={self.budget}: lower sinks"
            )
        return self


class Random(KVOptions):
    """The first few, the last ones, and of all others a uniform sample: the control of the rest."""

    budget: Budget = 128
    sinks: int = Field(4, ge=0, le=_MOST, description="of these, the first tokens of the stream")
    recent: int | None = Field(None, ge=1, le=_MOST, description=_RECENT)
    seed: int = Field(0, ge=0, lt=1 << 63, description="root of the randomness")

    @property
    def last(self) -> int:
        """Tokens of the end that are always held."""
        return self.budget // 2 if self.recent is None else self.recent

    @model_validator(mode="after")
    def _room(self) -> Self:
        if self.sinks + self.last > self.budget:
            raise ValueError(
                f"sinks={self.sinks} and recent={self.last} are more than budget={self.budget}: "
                "lower them"
            )
        return self


class H2O(KVOptions):
    """The last tokens, and those that were attended to most since they were read (2306.14048)."""

    budget: Budget = 128
    recent: int | None = Field(None, ge=1, le=_MOST, description=_RECENT)

    @property
    def last(self) -> int:
        """Tokens of the end that are always held."""
        return self.budget // 2 if self.recent is None else self.recent

    @model_validator(mode="after")
    def _room(self) -> Self:
        if self.last > self.budget:
            raise ValueError(f"recent={self.last} is more than budget={self.budget}: lower recent")
        return self


class SnapKV(KVOptions):
    """The last tokens, and those that they attend to most, with their neighbours (2404.14469)."""

    budget: Budget = 128
    queries: int = Field(
        16, ge=1, le=_MOST, description="last tokens of a segment that choose; they are held too"
    )
    pool: int = Field(
        5, ge=1, le=255, description="neighbours that a token's attention is averaged over; odd"
    )

    @model_validator(mode="after")
    def _room(self) -> Self:
        if self.queries >= self.budget:
            raise ValueError(
                f"queries={self.queries} leave no room in budget={self.budget}: lower queries"
            )
        if self.pool % 2 == 0:
            raise ValueError(f"pool={self.pool} must be odd, with as many before as behind")
        return self


class Quantised(KVOptions):
    """Every token in few bits: keys by channel, values by token (KIVI, arXiv 2402.02750)."""

    bits: int = Field(4, description="bits of a number: 8, 4 or 2")
    group: int = Field(
        32,
        ge=8,
        le=1 << 16,
        multiple_of=8,
        description="numbers that share a scale and a zero; so many last tokens stay as they are",
    )

    @model_validator(mode="after")
    def _packable(self) -> Self:
        if self.bits not in PACKED_BITS:
            raise ValueError(f"bits={self.bits} do not fill a byte: give one of {PACKED_BITS}")
        return self


CACHES: dict[str, type[KVOptions]] = {
    "full": Full,
    "window": Window,
    "random": Random,
    "h2o": H2O,
    "snapkv": SnapKV,
    "quantised": Quantised,
}


def name_of(options: KVOptions) -> str:
    """The name that a user types for a cache of these options."""
    return next(name for name, kind in CACHES.items() if type(options) is kind)


def cache_options(cache: str | KVOptions, **options: Any) -> KVOptions:
    """The options of a cache by its name: ``cache_options("window", budget=64)``."""
    if isinstance(cache, KVOptions):
        if options:
            raise UserError(f"the cache has its options already: leave {min(options)} out")
        return cache
    if cache not in CACHES:
        raise UserError(f"unknown cache {cache!r}; {suggestion(str(cache), CACHES)}")
    return CACHES[cache].make(**options)
