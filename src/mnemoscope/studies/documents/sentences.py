"""Numbers per seed as words, bars and rows, for the page of the study `documents`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mnemoscope.plots.figure import Reference, bars
from mnemoscope.report.claims import Claim
from mnemoscope.report.document import Cell, Figure
from mnemoscope.studies.documents.result import DocumentsResult
from mnemoscope.studies.documents.settings import Setting
from mnemoscope.studies.sentences import LOSS, Banded, band, bands_of

LABELS = {"tanh": "tanh", "relu": "ReLU", "sigmoid": "sigmoid"}
# Axes of figures of `shape_curve`.
APART = ("step", "distance between selections / their length")
SHAPE = ("step", "on", "dead", "negative", "length", "apart")


def seed_bars(
    result: DocumentsResult,
    title: str,
    caption: str,
    settings: Mapping[Setting, str],
    keys: Mapping[str, str],
) -> Figure:
    """Bars of several losses over settings, with the loss without memory across them."""
    labels = list(settings.values())
    series = []
    for key, label in keys.items():
        found = [result.over_seeds(one, key) for one in settings]
        # Not every setting has every loss.
        of = [one if len(one) else np.array([np.nan]) for one in found]
        series.append(bands_of(label, labels, of))
    none = float(np.mean([result.over_seeds(one, "none").mean() for one in settings]))
    rows = [
        {"setting": one.name, "seed": seed, **{key: getattr(fit, key) for key in keys}}
        for one in settings
        for seed, fit in enumerate(result.of(one))
    ]
    drawn = bars(series, "", LOSS, references=[Reference(none, "no memory")])
    spread = "Bars: mean over seeds, whiskers lowest to highest seed."
    return Figure(title, drawn, f"{caption} {spread}", rows)


def means(result: DocumentsResult, setting: Setting, keys: Sequence[str]) -> list[float | None]:
    """Means over seeds; None where a setting has no such number."""
    found = [result.over_seeds(setting, key) for key in keys]
    return [float(one.mean()) if len(one) else None for one in found]


def gate_rows(names: Sequence[str], selection: Sequence[Sequence[float]]) -> list[dict[str, Cell]]:
    """The gates (N, E) of documents, one row each."""
    return [
        {"document": name, **{f"e{entry}": gate for entry, gate in enumerate(row)}}
        for name, row in zip(names, selection, strict=True)
    ]


def shape_curve(result: DocumentsResult, setting: Setting, name: str, **columns: Cell) -> Banded:
    """How far apart selections lie while they are learnt, and their shapes as rows."""
    tracks = result.each(setting, lambda fit: fit.shapes)
    values = [[one.apart_by_length for one in track] for track in tracks]
    rows: list[dict[str, Cell]] = [
        {**columns, "seed": seed, **{key: getattr(one, key) for key in SHAPE}}
        | {"apart / length": one.apart_by_length}
        for seed, track in enumerate(tracks)
        for one in track
    ]
    return band(name, [one.step for one in tracks[0]], values), rows


def told(*claims: Claim) -> str:
    """Claims, each a sentence of its own."""
    return " ".join(f"{text[0].upper()}{text[1:]}." for text in map(str, claims))
