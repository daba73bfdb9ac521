"""What reads the novels: the window alone, the whole context, and memories in between."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from mnemoscope.huggingface.untrained import Untrained, untrained_options
from mnemoscope.studies.infinite.result import Reader


@dataclass(frozen=True)
class Contestant:
    """Something that reads: what is attached, with which options.

    reader    what the result says of it
    controls  whether it also reads with no past and with another's
    """

    kind: Literal["floor", "ceiling", "infinite", "transformer_xl", "added", "lora"]
    reader: Reader
    options: dict[str, Any] = field(default_factory=dict)
    controls: bool = False


def contestants(
    windows: tuple[int, ...], vectors: int, sizes: tuple[int, ...], layers: int, learn: bool
) -> dict[str, Contestant]:
    """All of them by name; ``sizes`` are other numbers of vectors that are tried as well."""
    first, half = windows[0], windows[0] // 2
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
    if learn:
        upper = tuple(range(*thirds(layers)["upper third"]))
        # As large as the others: what is carried, and what is in the signal.
        add("added", "added", "added", {**carried, "basis": vectors - half, "layers": upper})
        add("lora", "lora", "lora", carried)
    return found


def thirds(layers: int) -> dict[str, tuple[int, int]]:
    """Where the three parts of a model begin and end."""
    one, two = layers // 3, 2 * layers // 3
    return {"lower third": (0, one), "middle third": (one, two), "upper third": (two, layers)}
