"""Sentences and curves that are computed from numbers, for the pages of studies."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from mnemoscope.core.arrays import Floats
from mnemoscope.plots.figure import Series
from mnemoscope.report.claims import Gate
from mnemoscope.report.document import Cell

# A line with its band, and the rows that both show.
Banded = tuple[Series, list[dict[str, Cell]]]

LOSS = "loss (nats per token)"
# Letters of names that a sentence has room for.
_LONGEST = 60


def signs(least: float, unit: str, lowest_first: bool = False) -> str:
    """What the signs of `ranked` mean, to be said once on a page."""
    sign, way = ("<", "below") if lowest_first else (">", "above")
    return (
        f"Here {sign} means that every seed of the left one lies at least {least:g} {unit} {way} "
        "every seed of the right one, ≈ that they do not."
    )


def ranked(
    values: Mapping[str, Floats],
    least: float,
    digits: int = 2,
    lowest_first: bool = False,
    failed: Collection[str] = (),
) -> str:
    """Order names by mean over seeds; ``>`` where all seeds are ``least`` apart, ``≈`` elsewhere.

    With ``lowest_first`` the smallest comes first, and ``<`` stands where they are apart. Those
    that ``failed`` their gate follow without an order.
    """
    order = by_mean({n: v for n, v in values.items() if n not in failed}, lowest_first)
    words = [f"{name} ({values[name].mean():.{digits}f})" for name in order]
    for place, (left, right) in enumerate(pairwise(order), start=1):
        apart = _apart(values[left], values[right], least, lowest_first)
        words[place] = f"{'≈' if not apart else '<' if lowest_first else '>'} {words[place]}"
    told = [" ".join(words)] if words else []
    if failed:
        rest = (f"{name} ({values[name].mean():.{digits}f})" for name in values if name in failed)
        told.append(f"not passed: {', '.join(rest)}")
    return "; ".join(told) or "none"


def by_mean(values: Mapping[str, Floats], lowest_first: bool = False) -> list[str]:
    """Names, the best by mean over seeds first."""
    return sorted(values, key=lambda name: values[name].mean(), reverse=not lowest_first)


def leading(values: Mapping[str, Floats], least: float, lowest_first: bool = False) -> list[str]:
    """The best by mean over seeds, and those from which its seeds are not all ``least`` apart."""
    best, *others = by_mean(values, lowest_first)
    near = (n for n in others if not _apart(values[best], values[n], least, lowest_first))
    return [best, *near]


def _apart(better: Floats, worse: Floats, least: float, lowest_first: bool) -> bool:
    gap = worse.min() - better.max() if lowest_first else better.min() - worse.max()
    return bool(gap > 0 and gap >= least)


def leaders(
    values: Mapping[str, Floats],
    least: float,
    verbs: tuple[str, str],
    form: str,
    unit: str,
    lowest_first: bool = False,
    among: str = "seed",
) -> str:
    """Who is first, as far as seeds tell it, in plain words.

    ``among`` is what values are of, if not of seeds. ``verbs`` are those of one and of several:
    ``GRU recalls most, 1.27 bits`` or ``LSTM and GRU recall most, 0.86 to 1.27 bits, and cannot be
    told apart``.
    """
    order, near = by_mean(values, lowest_first), leading(values, least, lowest_first)
    # Those that follow the best one by one; a wide spread of seeds can bring in others further on.
    first = [name for place, name in enumerate(near) if order[place] == name]
    ends = sorted({float(values[name].mean()) for name in (first[0], first[-1])})
    amount = " to ".join(dict.fromkeys(format(end, form) for end in ends)) + unit
    who = few(first, f"{len(first)} of {len(values)}")
    if len(first) == 1:
        told = f"{who} {verbs[0]}, {amount}"
    elif len(first) == len(values):
        told = f"{who} cannot be told apart, {amount}"
    else:
        told = f"{who} {verbs[1]}, {amount}, and cannot be told apart"
    rest = near[len(first) :]
    others = few(rest, f"{len(rest)} others") if rest else ""
    return f"{told}, though not ahead of {others} in every {among}" if rest else told


def listed(names: Sequence[str]) -> str:
    """``A, B and C``."""
    *before, last = names
    return f"{', '.join(before)} and {last}" if before else last


def over_seeds(seeds: int, drawn: str = "Line", range_as: str = "band") -> str:
    """What is drawn of so many trainings, and what their range is drawn as."""
    if seeds == 1:
        return f"{drawn}: one training."
    return f"{drawn}: mean of {seeds} seeds; {range_as}: lowest to highest seed."


def few(names: Sequence[str], many: str, longest: int = _LONGEST) -> str:
    """The same where a sentence has room for so many letters, else what stands for ``many``."""
    return listed(names) if len(listed(names)) <= longest else many


def not_compared(names: Sequence[str], why: str) -> list[str]:
    """The sentence on those that failed their gate, if there are any."""
    are = "are" if len(names) > 1 else "is"
    who = few(names, f"{len(names)} models", 2 * _LONGEST) if names else ""
    # Some names are written small, a sentence is not.
    return [f"{who[:1].upper()}{who[1:]} {are} not compared: {why}."] if names else []


def mean_or_none(values: Sequence[float]) -> float | None:
    """A mean, as a table shows it: of nothing there is none."""
    return float(np.mean(values)) if len(values) else None


def gated(gates: Mapping[str, Gate]) -> tuple[list[str], str]:
    """Names that passed their gate, and the sentence that says who did; all gates have one name."""
    passed = [name for name, gate in gates.items() if gate.passed]
    failed = [name for name in gates if name not in passed]
    asked = next(iter(gates.values())).name
    # Some names have a comma: ``∞-former, sticky``.
    comma = "; " if any(", " in name for name in gates) else ", "
    told = f"Gate ({asked}, in every seed): passed by {comma.join(passed) or 'none'}"
    if failed:
        told += f"; not by {comma.join(failed)}, which have not learnt enough to be ranked"
    return passed, f"{told}."


def said(values: Floats, form: str = ".2f") -> str:
    """A mean with its range over seeds."""
    return f"{values.mean():{form}} ({values.min():{form}} to {values.max():{form}})"


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


def best_rates(best: Mapping[str, float], tried: Iterable[float]) -> str:
    """Best learning rates by name, and whose lies at an end of all rates that were ``tried``.

    A better one may be just outside.
    """
    rates = ", ".join(f"{name} {rate:g}" for name, rate in best.items())
    swept = sorted(set(tried))
    if len(swept) < 2:
        return f"{rates}. There was one rate only: nothing was swept."
    ends = {swept[0]: "lowest", swept[-1]: "highest"}
    told = [f"that of {name} is the {ends[lr]} tried" for name, lr in best.items() if lr in ends]
    if not told:
        return f"{rates}. No best rate lies at an end of the sweep."
    return f"{rates}. Of these, {' and '.join(told)}: beyond it there may be a better one."


def all_banded(
    x: ArrayLike, values: Mapping[str, Floats], columns: tuple[str, str]
) -> tuple[list[Series], list[dict[str, Cell]]]:
    """The curves of several models by name, each `banded`, and the rows of all."""
    drawn = [banded(name, x, one, columns) for name, one in values.items()]
    return [curve for curve, _ in drawn], [row for _, rows in drawn for row in rows]
