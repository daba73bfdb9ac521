"""Numbers per seed as words, bars and rows, for the page of the study `documents`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemoscope.plots.figure import Reference, Series, bars
from mnemoscope.report.document import Figure

Floats = NDArray[np.float64]
Result = dict[str, Any]
LABELS = {"tanh": "tanh", "relu": "ReLU", "sigmoid": "sigmoid"}
LOSS = "loss (nats per token)"
# What every claim of guidance or of a learned selection has to be compared with.
CONTROLS = {
    "tanh α=0": "control: α = 0",
    "control random": "control: random masks",
    "control all": "control: all entries on",
}


def over_seeds(result: Result, name: str, key: str) -> Floats:
    """One number per seed."""
    return np.array([fit[key] for fit in result["fits"][name]], dtype=np.float64)


def said(values: Floats, form: str = ".2f") -> str:
    """A mean with its range over seeds."""
    return f"{values.mean():{form}} ({values.min():{form}} to {values.max():{form}})"


def every(values: Any) -> str:
    """How often something held."""
    held = np.asarray(values)
    return f"in {'all' if held.all() else int(held.sum())} of {held.size} seeds"


def seed_series(result: Result, name: str, settings: Sequence[str], labels: Sequence[str], key: str,
            style: int | None = None) -> Series:  # fmt: skip
    """One number of several settings, with its range over seeds."""
    found = [
        over_seeds(result, one, key) if key in result["fits"][one][0] else np.array([np.nan])
        for one in settings
    ]
    return Series(
        name,
        list(labels),
        [one.mean() for one in found],
        [one.min() for one in found],
        [one.max() for one in found],
        style,
    )


def seed_rows(result: Result, settings: Sequence[str], keys: Sequence[str]) -> list[dict[str, Any]]:
    """The numbers of several settings, one row a seed."""
    return [
        {"setting": name, "seed": seed, **{key: fit.get(key) for key in keys}}
        for name in settings
        for seed, fit in enumerate(result["fits"][name])
    ]


def seed_bars(
    result: Result, title: str, caption: str, settings: dict[str, str], keys: dict[str, str]
) -> Figure:
    """Bars of several losses over settings, with the loss without memory across them."""
    series = [
        seed_series(result, label, list(settings), list(settings.values()), key)
        for key, label in keys.items()
    ]
    none = float(np.mean([over_seeds(result, name, "none").mean() for name in settings]))
    drawn = bars(series, "", LOSS, references=[Reference(none, "no memory")])
    spread = "Bars: mean over seeds, whiskers lowest to highest seed."
    return Figure(
        title, drawn, f"{caption} {spread}", seed_rows(result, list(settings), list(keys))
    )


def means(result: Result, name: str, keys: Sequence[str]) -> list[float | None]:
    """Means over seeds; None where a setting has no such number."""
    return [
        float(over_seeds(result, name, key).mean()) if key in result["fits"][name][0] else None
        for key in keys
    ]
