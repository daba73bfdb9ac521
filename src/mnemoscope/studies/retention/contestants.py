"""The models of the study `retention`: any registered memory by name, in several sizes.

How a memory takes part follows from the options that it has. A variant is a memory with some of
its options set; apart from these nothing here knows a memory by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mnemoscope.core.registry import find
from mnemoscope.studies.contenders import known_options

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


class Contestant:
    """What takes part under a name: the memory that it is, and the options set of it."""

    def __init__(self, name: str) -> None:
        self.memory, self.options = VARIANTS.get(name, (name, {}))
        self.kind: type[ModelConfig] = find("memory", self.memory)
        self.fields = self.kind.model_fields
        # What carries a cache of tokens has the length of that for its size.
        self.has_cache = "mem_len" in self.fields
        self.sized_by = "mem_len" if self.has_cache else "width"
        kin = (family for key, family in FAMILIES.items() if key in self.fields)
        self.family = next(kin, "one vector")

    def model(self, size: int, *, vocab: int, width: int, stride: int, context: int) -> ModelConfig:
        """Its config in one size; what does not set the size is the same for all."""
        fields = self.fields
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
        known = known_options(self.kind, shared)
        return self.kind.make(**known | self.options | {self.sized_by: size})
