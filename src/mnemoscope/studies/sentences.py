"""Sentences and curves that are computed from numbers, for the pages of studies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mnemoscope.core.arrays import Floats
from mnemoscope.plots.figure import Series
from mnemoscope.report.document import Cell

# A line with its band, and the rows that both show.
Banded = tuple[Series, list[dict[str, Cell]]]

LOSS = "loss (nats per token)"
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


def said(values: Floats, form: str = ".2f") -> str:
    """A mean with its range over seeds."""
    return f"{values.mean():{form}} ({values.min():{form}} to {values.max():{form}})"


def every(values: ArrayLike) -> str:
    """How often something held."""
    held = np.asarray(values)
    return f"in {'all' if held.all() else int(held.sum())} of {held.size} seeds"


def verdict(seen: Sequence[bool] | NDArray[np.bool_]) -> str:
    """Say whether something held in every training; of none nothing is clear."""
    count, total = int(np.sum(seen)), len(seen)
    if total and count in (0, total):
        return f"{'seen' if count else 'not seen'}, {count} of {total}"
    return f"unclear, {count} of {total}"


def band(name: str, x: ArrayLike, values: ArrayLike, style: int | None = None) -> Series:
    """Mean, lowest and highest of values (seeds, points)."""
    found = np.asarray(values, dtype=np.float64)
    return Series(name, x, found.mean(0), found.min(0), found.max(0), style)


def banded(
    name: str,
    x: ArrayLike,
    values: Floats,
    columns: tuple[str, str],
    of: tuple[str, str] = ("model", "seed"),
    style: int | None = None,
) -> Banded:
    """The `band` of a curve, and all of it as rows.

    ``columns`` names what is along x and what the values are, ``of`` what the name is of and what
    is counted.
    """
    points = np.asarray(x)
    rows: list[dict[str, Cell]] = [
        {of[0]: name, of[1]: number, columns[0]: at.item(), columns[1]: float(value)}
        for number, row in enumerate(values)
        for at, value in zip(points, row, strict=True)
    ]
    return band(name, points, values, style), rows


def bands_of(
    name: str, x: ArrayLike, samples: Iterable[Floats], style: int | None = None
) -> Series:
    """A `band` of points that have different numbers of seeds, (seeds,) each."""
    found = list(samples)
    means, lows, highs = ([pick(one) for one in found] for pick in (np.mean, np.min, np.max))
    return Series(name, x, means, lows, highs, style)


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
