"""Sentences and curves that are computed from numbers, for the pages of studies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from mnemoscope.core.arrays import Floats
from mnemoscope.plots.figure import Series
from mnemoscope.report.document import Cell

# What the signs of `ranked` mean, to be said once on a page.
SIGNS = (
    "Here > means that every seed of the left one beats every seed of the right one, ≈ that they "
    "overlap."
)
FEWER = (
    "Here < means that every seed of the left one needs fewer bits than every seed of the right "
    "one, ≈ that they overlap."
)


def ranked(values: Mapping[str, Floats], digits: int = 2, lowest_first: bool = False) -> str:
    """Order names by mean over seeds; ``>`` where all seeds agree, ``≈`` where they do not.

    With ``lowest_first`` the smallest comes first, and ``<`` stands where all seeds agree.
    """
    turn = -1 if lowest_first else 1
    order = sorted(values, key=lambda name: -turn * float(values[name].mean()))
    words = [f"{order[0]} ({values[order[0]].mean():.{digits}f})"]
    for left, right in pairwise(order):
        apart = (turn * values[left]).min() > (turn * values[right]).max()
        sign = ("<" if lowest_first else ">") if apart else "≈"
        words.append(f"{sign} {right} ({values[right].mean():.{digits}f})")
    return " ".join(words)


def banded(
    name: str, x: ArrayLike, values: Floats, columns: tuple[str, str]
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


def spread(values: Sequence[float]) -> str:
    """``3 to 7``, or ``5`` where all are the same."""
    low, high = min(values), max(values)
    return f"{low:g} to {high:g}" if low < high else f"{low:g}"


def edge_of_sweep(best: Mapping[str, float], tried: Sequence[float]) -> str:
    """Say whose best learning rate lies at an end of the sweep: a better one may be just outside.

    ``best`` is by name; ``tried`` are all rates, the lowest first.
    """
    if len(tried) < 2:
        return "There was one rate only: nothing was swept."
    ends = {tried[0]: "lowest", tried[-1]: "highest"}
    told = [f"that of {name} is the {ends[lr]} tried" for name, lr in best.items() if lr in ends]
    if not told:
        return "No best rate lies at an end of the sweep."
    return f"Of the best rates, {' and '.join(told)}: beyond it there may be a better one."


def all_banded(
    x: ArrayLike, values: Mapping[str, Floats], columns: tuple[str, str]
) -> tuple[list[Series], list[dict[str, Cell]]]:
    """The curves of several models by name, each `banded`, and the rows of all."""
    drawn = [banded(name, x, one, columns) for name, one in values.items()]
    return [curve for curve, _ in drawn], [row for _, rows in drawn for row in rows]
