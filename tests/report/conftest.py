from __future__ import annotations

import datetime

import numpy as np
import pytest

from mnemoscope.plots import figure
from mnemoscope.plots.figure import Reference, Region, Series
from mnemoscope.report.document import Cell, Figure, Report, Reproduce, Section, Table

EVIL = "</script><!--<img src=x onerror=window.hacked=1><script>window.hacked=1</script>\"'&"


def build(text: str) -> Report:
    """Return a report that has every kind of part, and ``text`` in every place for text."""
    lags = [1, 2, 4, 8]
    curves = figure.lines(
        [Series(text, lags, [1, 0.9, 0.5, 0.1], [0.9, 0.8, 0.4, 0], [1, 1, 0.6, 0.2])],
        f"lag {text}",
        f"accuracy {text}",
        references=[Reference(0.1, f"chance {text}")],
        region=Region(1, 4, f"seen {text}"),
        log_x=True,
    )
    groups = figure.bars([Series(text, [text, "b"], [1, 2], [0.5, 1], [2, 3])], text, text)
    matrix = figure.heatmap(np.eye(2), [text, "b"], [text, "b"], text, text, text)
    rows: list[dict[str, Cell]] = [{"lag": lag, f"note {text}": text} for lag in lags]
    return Report(
        f"Title {text}",
        f"Question {text}",
        [
            Section(f"One {text}", [f"Paragraph {text}", Figure(f"a {text}", curves, text, rows)]),
            Section(
                f"Two {text}",
                [
                    Figure(f"b {text}", groups, text, rows),
                    Figure(f"c {text}", matrix, text, rows),
                    Table(f"d {text}", ["model", text], [[text, 1.5], ["b", None]], text),
                ],
            ),
        ],
        Reproduce(
            f"mnemoscope study {text}",
            f"steps: 3 # {text}\n",
            {text: text},
            4523.0,
            datetime.datetime(2030, 1, 2, 3, 4, tzinfo=datetime.UTC),
            2,
        ),
    )


@pytest.fixture
def report() -> Report:
    return build("plain")


@pytest.fixture
def evil() -> str:
    return EVIL


@pytest.fixture
def evil_report() -> Report:
    return build(EVIL)
