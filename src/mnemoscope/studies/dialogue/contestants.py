"""Who takes part in the study, and the two that all are measured against. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mnemoscope.studies.study import label

# Seeing nothing of the document, and seeing all of it: between these lies what can be recovered.
FLOOR, CEILING = "floor", "ceiling"


@dataclass(frozen=True)
class Variant:
    """A memory with some options of its own, and what readers of the page will see."""

    memory: str
    label: str
    options: Mapping[str, Any] = field(default_factory=dict)


def variants(contraction: float) -> dict[str, Variant]:
    """Variants that the study has words for; τ is ``contraction`` where it is fixed."""
    signal, tau = label("infinite"), {"contraction": contraction}
    return {
        "window": Variant("transformer_xl", "window only", {"mem_len": 0}),
        "infinite_fixed": Variant("infinite", f"{signal} (τ = {contraction:g})", tau),
        "infinite_sticky": Variant(
            "infinite", f"{signal} (τ = {contraction:g}, sticky)", tau | {"sticky": True}
        ),
    }


# By name alone, to check what is typed.
VARIANTS = tuple(variants(0.75))
# Memories that need no training, by their names here: what a pretrained model's attention reads.
UNTRAINED = {
    "window": "window carried",
    "transformer_xl": "Transformer-XL's cache",
    "compressive": "Compressive means",
    "infinite": "∞-former (samples at equal distances)",
    "infinite_sticky": "∞-former (sticky)",
}
# Learns documents before any conversation, and holds them by name: only for a pretrained model.
BY_NAME = "documents"
LABELS = {
    FLOOR: "no document (floor)",
    CEILING: "all in sight (ceiling)",
    BY_NAME: "document memory (by name)",
}
