"""Who takes part in a study: variants that it has words for, and every registered memory.

What a memory is given depends on the options that it has, not on its name: one that is registered
tomorrow takes part as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mnemoscope.core.errors import suggestion
from mnemoscope.core.registry import MEMORIES, model_kind
from mnemoscope.memories.config import ModelConfig


def check_contenders(names: Sequence[str], variants: Collection[str]) -> None:
    """Raise `ValueError` for a name that is neither a variant of the study nor a memory."""
    known = sorted({*variants, *MEMORIES})
    for name in names:
        if model_kind(name) != "memory":
            raise ValueError(
                f"{name!r} cannot take part: it does not read a stream from left to right; "
                f"{suggestion(name, known)}"
            )
        if name not in known and ":" not in name:
            raise ValueError(f"unknown memory {name!r}; {suggestion(name, known)}")


def known_options(kind: type[ModelConfig], options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the options that a memory has."""
    return {name: value for name, value in options.items() if name in kind.model_fields}


def carrying(
    kind: type[ModelConfig], vectors: int, recent: int, *, chunk: int, rate: int, context: int
) -> dict[str, Any]:
    """Options with which a layer carries so many vectors from segment to segment.

    A memory that keeps something of older tokens too has ``recent`` vectors for the last ones: a
    signal is written ``chunk`` tokens at a time, a compressed vector holds ``rate`` tokens. One
    that holds keys and values looks back over ``context`` tokens. Those that have none of this,
    such as an LSTM, carry what their width gives them.
    """
    older = vectors - recent
    if "basis" in kind.model_fields:
        return {"mem_len": recent, "basis": older, "chunk": chunk}
    if "compressed_len" in kind.model_fields:
        return {"mem_len": recent, "compressed_len": older, "rate": rate}
    return known_options(kind, {"mem_len": vectors, "context": context})
