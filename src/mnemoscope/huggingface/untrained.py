"""Memories that need no training: the model's own attention reads what a layer still holds.

They are known by what they keep once a text is longer than the window. Imports no torch.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from mnemoscope.huggingface.config import InfiniteOptions, TransformerXLOptions

Untrained = Literal["sticky", "even", "transformer_xl", "compressive", "carried"]
UNTRAINED: tuple[Untrained, ...] = get_args(Untrained)
# First keys of a text that are never let go: most models lean on them whatever they read.
SINKS = 4
# Keys whose mean the Compressive Transformer's memory keeps.
POOLING = 4


def untrained_options(name: Untrained, window: int, vectors: int) -> dict[str, Any]:
    """Options for a model that sees ``window`` tokens at once and keeps ``vectors`` a layer.

    It reads half a window at a time, and the half before is kept whole. ``carried`` keeps nothing
    else, so it is the window alone.
    """
    both: dict[str, Any] = {"window": window // 2, "sinks": SINKS}
    joint = {**both, "joint": True, "basis": vectors}
    last = {**both, "mem_len": vectors}
    return {
        "sticky": {**joint, "sticky": True},
        "even": joint,
        "transformer_xl": last,
        "compressive": {**last, "pooling": POOLING},
        "carried": {**both, "mem_len": window // 2},
    }[name]


def untrained(name: Untrained, window: int, vectors: int) -> InfiniteOptions:
    """The same as options of a memory to attach."""
    options = untrained_options(name, window, vectors)
    kind = InfiniteOptions if options.get("joint") else TransformerXLOptions
    return kind.make(**options)
