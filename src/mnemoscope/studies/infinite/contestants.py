"""What reads the novels: the window alone, the whole context, and memories in between.

Imports no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from mnemoscope.huggingface.untrained import Untrained, untrained_options
from mnemoscope.studies.infinite.result import Reader

# What learns from other novels: densities, each with one thing changed, and a rival without memory.
DENSITIES: dict[str, dict[str, Any]] = {
    "added": {},
    "added_sticky": {"sticky": True},
    # A weight at which it matters; the published 1e-6 hardly does.
    "added_kl": {"kl": 1e-3},
    "added_gate": {"gate": True},
    "added_everywhere": {"layers": None},
    # But for widths, which the release fixes for 512 functions.
    "added_published": {
        "layers": None, "sticky": True, "gate": True, "kl": 1e-6, "fit": "count",
        "variance": "clamp", "contraction": 0.5,
    },
}  # fmt: skip
LearnerName = Literal[
    "added", "added_sticky", "added_kl", "added_gate", "added_everywhere", "added_published", "lora"
]


@dataclass(frozen=True)
class Contestant:
    """Something that reads: what is attached, with which options.

    reader    what the result says of it
    controls  whether it also reads with no past and with another's
    tbptt     windows that gradients flow back through where it learns
    """

    kind: Literal["floor", "ceiling", "infinite", "transformer_xl", "added", "lora"]
    reader: Reader
    options: dict[str, Any] = field(default_factory=dict)
    controls: bool = False
    tbptt: int = 1


def contestants(
    windows: tuple[int, ...], vectors: int, sizes: tuple[int, ...], layers: int
) -> dict[str, Contestant]:
    """All of them by name; ``sizes`` are other numbers of vectors that are tried as well."""
    first = windows[0]
    kinds: tuple[Untrained, ...] = ("even", "sticky", "transformer_xl", "compressive", "carried")
    even, sticky, cache, compressive, carried = (
        untrained_options(name, first, vectors) for name in kinds
    )

    def add(
        name: str, kind: Any, said: str, options: dict[str, Any] | None = None, **how: Any
    ) -> None:
        controls = how.pop("controls", False)
        found[name] = Contestant(
            kind, Reader(said, **{"window": first, **how}), options or {}, controls
        )

    found: dict[str, Contestant] = {}
    add("ceiling", "ceiling", "ceiling")
    add(f"floor {first}", "floor", "floor")
    add(f"sticky {first}", "infinite", "sticky", sticky, controls=True)
    add(f"transformer_xl {first}", "transformer_xl", "transformer_xl", cache)
    add("even", "infinite", "even", even)
    add("compressive", "transformer_xl", "compressive", compressive)
    add("carried", "transformer_xl", "carried", carried)
    for part, (begin, end) in thirds(layers).items():
        chosen = {**sticky, "layers": tuple(range(begin, end))}
        add(f"sticky in {part}", "infinite", "sticky", chosen, layers=part)
    for window in windows[1:]:
        longer = {"window": window // 2}
        add(f"floor {window}", "floor", "floor", window=window)
        add(f"sticky {window}", "infinite", "sticky", {**sticky, **longer}, window=window)
        name = f"transformer_xl {window}"
        add(name, "transformer_xl", "transformer_xl", {**cache, **longer}, window=window)
    for size in sizes:
        fewer, name = {**sticky, "basis": size}, f"transformer_xl of {size}"
        add(f"sticky of {size}", "infinite", "sticky", fewer, vectors=size)
        fewer = {**cache, "mem_len": size}
        add(name, "transformer_xl", "transformer_xl", fewer, vectors=size)
    return found


def learners(names: Sequence[str], window: int, vectors: int, layers: int) -> dict[str, Contestant]:
    """What learns from other novels, by name: as large a state as the others', and none for LoRA.

    Half a window is carried whole, the rest is a signal that is read by densities and added, as
    published, in the upper third. LoRA has as many weights there, and what is carried.
    """
    carried = untrained_options("carried", window, vectors)
    upper = tuple(range(*thirds(layers)["upper third"]))
    added = {**carried, "basis": vectors - window // 2, "layers": upper}
    found = {}
    for name in names:
        changed = DENSITIES.get(name, {})
        tbptt = 2 if changed.get("gate") else 1  # what a gate does shows a window later
        kind: Any = "lora" if name == "lora" else "added"
        options = carried if name == "lora" else {**added, **changed}
        found[name] = Contestant(kind, Reader(name, window), options, name != "lora", tbptt)
    return found


def thirds(layers: int) -> dict[str, tuple[int, int]]:
    """Where the three parts of a model begin and end."""
    one, two = layers // 3, 2 * layers // 3
    return {"lower third": (0, one), "middle third": (one, two), "upper third": (two, layers)}
