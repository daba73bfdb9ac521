"""The models of the study `retention`: any registered memory by name, in several sizes.

How a memory takes part follows from the options that it has. A variant is a memory with some of
its options set; apart from these nothing here knows a memory by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.core.registry import MEMORIES, find
from mnemoscope.studies import study

if TYPE_CHECKING:
    from mnemoscope.memories.config import ModelConfig

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "strided": ("sparse", {"pattern": "strided"}),
    "fixed": ("sparse", {"pattern": "fixed"}),
    "sticky": ("infinite", {"sticky": True}),
}
# The first option that a memory has says what its state is, to draw memories of a kin together.
FAMILIES = {
    "basis": "a signal",
    "mem_len": "a queue",
    "context": "every token",
    "heads": "a state of fixed size",
}


@dataclass(frozen=True)
class Contestant:
    """A memory that takes part: its own name, the memory that it is, and the options set of it."""

    name: str
    memory: str
    options: dict[str, Any]

    @classmethod
    def named(cls, name: str) -> Contestant:
        """The memory or variant of this name, or `UserError`."""
        if name not in VARIANTS and name not in MEMORIES and ":" not in name:
            hint = suggestion(name, [*MEMORIES, *VARIANTS])
            raise UserError(f"unknown memory {name!r}; {hint}")
        return cls(name, *VARIANTS.get(name, (name, {})))

    @property
    def kind(self) -> type[ModelConfig]:
        """The class of its configs."""
        found: type[ModelConfig] = find("memory", self.memory)
        return found

    @property
    def label(self) -> str:
        """What it is called on the page."""
        return study.label(self.name)

    @property
    def family(self) -> str:
        """What kind of state it has."""
        fields = self.kind.model_fields
        return next((family for key, family in FAMILIES.items() if key in fields), "one vector")

    @property
    def has_cache(self) -> bool:
        """Whether it carries a cache of tokens; then the length of that is its size."""
        return "mem_len" in self.kind.model_fields

    @property
    def sized_by(self) -> str:
        """The option that sets its size."""
        return "mem_len" if self.has_cache else "width"

    def model(self, size: int, *, vocab: int, width: int, stride: int, context: int) -> ModelConfig:
        """Its config in one size; what does not set the size is the same for all."""
        fields = self.kind.model_fields
        shared = {"vocab": vocab, "width": width, "heads": 2, "mlp_ratio": 2.0, "context": context}
        if "pattern" in fields:
            # A grid is crossed in two steps, so sparse attention needs a second layer.
            shared |= {"layers": 2, "stride": stride, "summaries": max(1, stride // 4)}
        if "basis" in fields:
            shared |= {"basis": size, "chunk": size}
        if self.options.get("sticky"):
            shared["bins"] = 2 * size
        # A queue of compressed vectors that is off by default stays off.
        if "compressed_len" in fields and fields["compressed_len"].default:
            shared["compressed_len"] = size
        shared = {key: value for key, value in shared.items() if key in fields}
        return self.kind.make(**shared | self.options | {self.sized_by: size})
