"""Curves of the page of `retention`, one panel for memories of a kin, and the rows behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mnemoscope.lenses.retention.episodes import Along
from mnemoscope.plots.figure import Plot, Series, lines
from mnemoscope.plots.small_multiples import small_multiples
from mnemoscope.report.document import Cell
from mnemoscope.studies.retention.result import Examined, Memory, RetentionResult


def by_family(
    families: Mapping[str, Sequence[Memory]],
    curve: Callable[[Memory, int], Series],
    x_title: str,
    y_title: str,
    more: Sequence[Series] = (),
    columns: int = 2,
    **how: Any,
) -> Plot:
    """One panel for each family with the ``curve`` of each memory, by its place in the family.

    Series that are ``more`` stand in every panel.
    """
    sheets = []
    for family, memories in families.items():
        series = [curve(memory, style) for style, memory in enumerate(memories)]
        sheets.append((family, lines([*series, *more], x_title, y_title, **how)))
    return small_multiples(sheets, columns)


def curve_rows(result: RetentionResult, along: Along) -> list[dict[str, Cell]]:
    """All sizes and seeds at the best learning rate, point by point."""
    return [
        {
            "model": memory.label,
            "size": one.size,
            "lr": one.lr,
            "seed": one.seed,
            along: x,
            "bits": curve.bits[at],
            "blanked": curve.blanked[at],
            "shuffled": curve.shuffled[at],
            "bytes": curve.bytes[at],
        }
        for memory in result.known
        for size in memory.sizes
        for one in result.chosen(memory, size)
        if isinstance(one.found, Examined)
        for curve in [one.found.curves[along]]
        for at, x in enumerate(curve.x)
    ]
