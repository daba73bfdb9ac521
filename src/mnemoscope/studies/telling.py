"""Sentences and curves that are computed from numbers, for the pages of studies."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mnemoscope.document import Cell
from mnemoscope.figure import Series

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


def banded(
    name: str, x: ArrayLike, values: NDArray[np.float64], columns: tuple[str, str]
) -> tuple[Series, list[dict[str, Cell]]]:
    """A curve over seeds (seeds, points): mean with lowest and highest, and all of it as rows.

    ``columns`` names what is along x and what the values are.
    """
    points = np.asarray(x)
    rows: list[dict[str, Cell]] = [
        {"model": name, "seed": seed, columns[0]: at.item(), columns[1]: float(value)}
        for seed, row in enumerate(values)
        for at, value in zip(points, row, strict=True)
    ]
    return Series(name, points, values.mean(0), values.min(0), values.max(0)), rows
