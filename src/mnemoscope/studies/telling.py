"""Sentences that are computed from numbers, for the pages of studies."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

# What ">" and "≈" mean in `ranked`, to be said once on a page.
SIGNS = (
    "Here > means that every seed of the left one beats every seed of the right one, ≈ that they "
    "overlap."
)


def ranked(values: Mapping[str, NDArray[np.float64]]) -> str:
    """Order names by mean over seeds; ``>`` where all seeds agree, ``≈`` where they do not."""
    order = sorted(values, key=lambda name: -values[name].mean())
    words = [f"{order[0]} ({values[order[0]].mean():.2f})"]
    for left, right in pairwise(order):
        sign = ">" if values[left].min() > values[right].max() else "≈"
        words.append(f"{sign} {right} ({values[right].mean():.2f})")
    return " ".join(words)
