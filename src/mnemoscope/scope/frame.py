"""What the page is told of one segment, as plain JSON.

Shapes: T tokens of the segment, N tokens read so far.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from mnemoscope.scope.views.view import Floats, Json, Part, Shown, listed, packed


@dataclass
class Step:
    """What a stream showed while it read one segment: bytes carried, bits of surprise, views."""

    nbytes: int
    bits: list[float | None]
    parts: list[Part] = field(default_factory=list)
    panels: list[Json] = field(default_factory=list)

    def add(self, shown: Shown) -> None:
        """Take in what one layer showed."""
        self.parts += shown.parts
        self.panels += shown.panels


def frame(step: Step, number: int, first: int, new: int) -> Json:
    """One segment for the page: ``number`` of it, and its ``new`` tokens after ``first`` others."""
    ages = age_edges(first + new)
    parts = [
        {
            "layer": part.layer,
            "name": part.name,
            "share": packed(np.sqrt(part.shares.mean(0))),
            "ages": listed(by_age(part.shares, first, ages)),
        }
        for part in step.parts
    ]
    whole = [part.shares for part in step.parts]
    mean = np.mean(whole, axis=0) if whole else np.zeros((new, first + new))
    even = np.tril(np.ones((new, first + new)), first)
    return {
        "segment": number,
        "first": first,
        "new": new,
        "bytes": step.nbytes,
        "bits": step.bits,
        "parts": parts,
        # Shares fall off steeply: of their roots, 255 steps show the faint ones too.
        "map": packed(np.sqrt(mean)),
        "ages": [[int(low), int(high) - 1] for low, high in pairwise(ages)],
        "even": listed(by_age(even / even.sum(1, keepdims=True), first, ages)),
        "panels": step.panels,
    }


def age_edges(read: int) -> list[int]:
    """Ages 0, 1, 2, then twice as many in each group: 0, 1, 2, 3–4, 5–8, 9–16 … below ``read``."""
    edges, width = [0, 1, 2], 1
    while edges[-1] < read:
        edges.append(edges[-1] + width)
        width *= 2
    return edges if edges[-1] >= read else [*edges, read]


def by_age(shares: Floats, first: int, edges: list[int]) -> Floats:
    """Mean share (T, N) that tokens of each group of ages have, over queries old enough."""
    new, read = shares.shape
    ages = (first + np.arange(new))[:, None] - np.arange(read)
    found = np.zeros(len(edges) - 1)
    for place, (low, high) in enumerate(pairwise(edges)):
        reaches = first + np.arange(new) >= low
        if reaches.any():
            inside = (ages >= low) & (ages < high)
            found[place] = (shares * inside).sum(1)[reaches].mean()
    return found
