"""Reads the result of the study `retention`: curves, sizes, the front, what is stable.

A result may not be whole yet; what is not there is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Result = dict[str, Any]


def rows(result: Result, memory: str, size: int) -> list[dict[str, Any]]:
    """The trainings of one memory in one size at its best learning rate, seed by seed."""
    rate = result["memories"][memory]["lr"]
    found = [
        row
        for row in result["trials"]
        if (row["memory"], row["size"], row["lr"]) == (memory, size, rate)
    ]
    return sorted(found, key=lambda row: int(row["seed"]))


def curves(result: Result, memory: str, along: str, what: str = "bits") -> Floats:
    """One kind of curve of a memory in its middle size, (seeds, points).

    A training that diverged counts as knowing nothing.
    """
    found = rows(result, memory, result["memories"][memory]["middle"])
    nothing = [0.0] * len(asked_at(result, along))
    return np.array([row["curves"][along][what] if "curves" in row else nothing for row in found])


def points(result: Result) -> list[dict[str, Any]]:
    """Of every memory in every size that was trained: its bytes, and its bits (seeds,)."""
    found = []
    for memory in known(result):
        for size in result["memories"][memory]["sizes"]:
            here = [row for row in rows(result, memory, size) if "curves" in row]
            if here:
                bits = np.array([row["capacity"] for row in here])
                # Seeds reach their capacity at different numbers of items: the largest counts.
                carried = max(row["bytes"] for row in here)
                found.append({"memory": memory, "size": size, "bytes": carried, "bits": bits})
    return found


def front(found: Sequence[dict[str, Any]], least: float = 0.0) -> list[dict[str, Any]]:
    """Those that no other beats with as few bytes and as many bits, by bytes.

    Who recalls no more than ``least`` bits is not worth any byte.
    """
    best, kept = least, []
    for one in sorted(found, key=lambda p: (p["bytes"], -p["bits"].mean())):
        if one["bits"].mean() > best:
            best = float(one["bits"].mean())
            kept.append(one)
    return kept


def unstable(values: dict[str, Floats]) -> list[tuple[str, str]]:
    """Pairs of names whose order is not the same for every seed."""
    return [
        (a, b)
        for a, b in combinations(values, 2)
        if len({bool(x > y) for x, y in zip(values[a], values[b], strict=False)}) > 1
    ]


def known(result: Result) -> list[str]:
    """Memories of which something is there at the middle size."""
    return [
        name
        for name, facts in result["memories"].items()
        if any("curves" in row for row in rows(result, name, facts["middle"]))
    ]


def asked_at(result: Result, along: str) -> list[int]:
    """The points of one kind of curve."""
    row = next(row for row in result["trials"] if "curves" in row)
    return list(row["curves"][along]["x"])


def label(result: Result, memory: str) -> str:
    """What a memory is called on the page."""
    return str(result["memories"][memory]["label"])


def families(result: Result) -> dict[str, list[str]]:
    """Memories of a kin, under its name."""
    found: dict[str, list[str]] = {}
    for memory in known(result):
        found.setdefault(result["memories"][memory]["family"], []).append(memory)
    return found


def middle_cost(result: Result, memory: str) -> dict[str, Any]:
    """Bytes and FLOPs by length of a memory in its middle size."""
    facts = result["memories"][memory]
    found: dict[str, Any] = facts["costs"][facts["sizes"].index(facts["middle"])]
    return found


def span(ages: Sequence[float | None], oldest: int) -> str:
    """Lowest to highest seed; None lies beyond the oldest age, 0 had nothing to lose."""
    ends = [math.inf if age is None else age for age in ages]
    words = [
        "–" if end == 0 else f">\u00a0{oldest}" if math.isinf(end) else f"{end:.0f}"
        for end in (min(ends), max(ends))
    ]
    return words[0] if words[0] == words[1] else f"{words[0]} to {words[1]}"
