"""What the page is told of one segment, as plain JSON.

Shapes: T tokens of the segment, N tokens read so far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from mnemoscope.activations.streams.page_stream import Step
from mnemoscope.activations.streams.predictions import bits_of, likeliest
from mnemoscope.activations.streams.views.view import Floats, Json, listed, packed
from mnemoscope.data.batch import NO_QUESTION

Say = Callable[[int], str]


def frame(step: Step, number: int, first: int, targets: Sequence[int], say: Say) -> Json:
    """One segment for the page: ``number`` of it, and its tokens after ``first`` others."""
    new = len(targets)
    ages = age_edges(first + new)
    parts = [
        {
            "layer": part.layer,
            "name": part.name,
            "heads": part.heads,
            "share": packed(np.sqrt(part.shares.mean(0))),
            "ages": listed(by_age(part.shares, first, ages)),
        }
        for part in step.parts
    ]
    whole = [part.shares for part in step.parts]
    mean = np.mean(whole, axis=0) if whole else np.zeros((new, first + new))
    uniform = np.tril(np.ones((new, first + new)), first)
    return {
        "segment": number,
        "first": first,
        "new": new,
        "bytes": step.nbytes,
        "said": likeliest(step.logits, new, say),
        "answers": [None if one == NO_QUESTION else say(one) for one in targets],
        "bits": bits_of(step.logits, targets),
        "parts": parts,
        "map": shares_packed(mean),
        "ages": [[int(low), int(high) - 1] for low, high in pairwise(ages)],
        "uniform": listed(by_age(uniform / uniform.sum(1, keepdims=True), first, ages)),
        "panels": step.panels,
    }


def shares_packed(shares: Floats) -> Json:
    """Shares (T, N) as bytes; they fall off steeply, and of their roots the faint ones show too."""
    return packed(np.sqrt(shares))


def age_edges(read: int) -> list[int]:
    """Ages 0, 1, 2, then twice as many in each group: 0, 1, 2, 3–4, 5–8, 9–16 … below ``read``."""
    edges, width = [0, 1, 2], 1
    while edges[-1] < read:
        edges.append(edges[-1] + width)
        width *= 2
    return edges


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
