"""What reads the novels: the window alone, the whole context, and memories in between."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

SINKS = 4
# Of Compressive Transformer.
POOLING = 4
LABELS = {
    "floor": "window alone",
    "ceiling": "whole context",
    "carried": "keys of half a window carried",
    "transformer_xl": "Transformer-XL's cache",
    "compressive": "Compressive Transformer's",
    "even": "∞-former, even samples",
    "sticky": "∞-former, sticky",
    "added": "∞-former's densities, trained",
    "lora": "LoRA without memory, trained",
}


@dataclass(frozen=True)
class Contestant:
    """Something that reads: what is attached, with which options.

    window    tokens seen at most without what is older; memories read half of it at a time
    controls  whether it also reads with no past and with another's
    """

    kind: Literal["floor", "ceiling", "infinite", "transformer_xl", "added", "lora"]
    window: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    controls: bool = False


def contestants(
    windows: tuple[int, ...], vectors: int, sizes: tuple[int, ...], layers: int, learn: bool
) -> dict[str, Contestant]:
    """All of them by name; ``sizes`` are other numbers of vectors that are tried as well."""
    first, half = windows[0], windows[0] // 2
    both = {"window": half, "sinks": SINKS}
    even = {**both, "joint": True, "basis": vectors}
    sticky = {**even, "sticky": True}
    cache = {**both, "mem_len": vectors}
    carried = {**both, "mem_len": half}
    found = {
        "ceiling": Contestant("ceiling", first),
        f"floor {first}": Contestant("floor", first),
        f"sticky {first}": Contestant("infinite", first, sticky, controls=True),
        f"transformer_xl {first}": Contestant("transformer_xl", first, cache),
        "even": Contestant("infinite", first, even),
        "compressive": Contestant("transformer_xl", first, {**cache, "pooling": POOLING}),
        "carried": Contestant("transformer_xl", first, carried),
    }
    for part, (begin, end) in thirds(layers).items():
        chosen = {**sticky, "layers": tuple(range(begin, end))}
        found[f"sticky in {part}"] = Contestant("infinite", first, chosen)
    for window in windows[1:]:
        longer = {"window": window // 2}
        found[f"floor {window}"] = Contestant("floor", window)
        found[f"sticky {window}"] = Contestant("infinite", window, {**sticky, **longer})
        found[f"transformer_xl {window}"] = Contestant(
            "transformer_xl", window, {**cache, **longer}
        )
    for size in sizes:
        found[f"sticky of {size}"] = Contestant("infinite", first, {**sticky, "basis": size})
        found[f"transformer_xl of {size}"] = Contestant(
            "transformer_xl", first, {**cache, "mem_len": size}
        )
    if learn:
        upper = tuple(range(*thirds(layers)["upper third"]))
        # As large as the others: what is carried, and what is in the signal.
        added = {**carried, "basis": vectors - half, "layers": upper}
        found["added"] = Contestant("added", first, added)
        found["lora"] = Contestant("lora", first, carried)
    return found


def thirds(layers: int) -> dict[str, tuple[int, int]]:
    """Where the three parts of a model begin and end."""
    one, two = layers // 3, 2 * layers // 3
    return {"lower third": (0, one), "middle third": (one, two), "upper third": (two, layers)}
