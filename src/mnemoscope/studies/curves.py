"""A figure of several curves, each with the band of its trainings and the rows that both show."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mnemoscope.plots.figure import Plot, lines
from mnemoscope.report.document import Figure
from mnemoscope.studies.sentences import Banded


def curves_figure(
    name: str,
    curves: Iterable[Banded],
    titles: tuple[str, str],
    caption: str,
    draw: Callable[..., Plot] = lines,
    **how: Any,
) -> Figure:
    """Draw curves, or bars, under the titles of their axes; its data are the rows of all."""
    drawn = list(curves)
    series = [one for one, _ in drawn]
    rows = [row for _, more in drawn for row in more]
    return Figure(name, draw(series, *titles, **how), caption, rows)
