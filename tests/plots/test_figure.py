from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from mnemoscope.core.errors import UserError
from mnemoscope.plots import figure
from mnemoscope.plots.figure import Reference, Region, Series


def curve(name="a", **changes):
    values: dict[str, Any] = {
        "x": [1, 2, 4],
        "y": [1.0, 0.5, 0.1],
        "low": [0.9, 0.4, 0.0],
        "high": [1, 0.6, 0.2],
    }
    return Series(name, **(values | changes))


def test_plotly_is_not_imported_until_a_figure_is_drawn():
    code = (
        "import sys, mnemoscope.plots.figure, mnemoscope.report\n"
        "sys.exit(' '.join(m for m in ('plotly', 'kaleido', 'torch') if m in sys.modules) or 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_each_series_differs_in_colour_dash_and_marker():
    drawn = figure.lines([Series(str(i), [1, 2], [i, i]) for i in range(5)], "x", "y").data
    assert len({trace.line.color for trace in drawn}) == 5
    assert len({trace.line.dash for trace in drawn}) == 5
    assert len({trace.marker.symbol for trace in drawn}) == 5


def test_twenty_series_are_still_told_apart():
    drawn = figure.lines([Series(str(i), [1, 2], [i, i]) for i in range(20)], "x", "y").data
    assert len({(trace.line.color, trace.line.dash) for trace in drawn}) == 20


def test_style_makes_a_series_look_the_same_in_another_place():
    first = figure.lines([curve("a", style=3)], "x", "y").data[-1]
    other = figure.lines([curve("b"), curve("a", style=3)], "x", "y").data[-1]
    assert (first.line, first.marker) == (other.line, other.marker)


def test_band_goes_once_around_low_and_high_and_lies_below_all_lines():
    drawn = figure.lines([curve("a"), curve("b")], "x", "y").data
    assert [trace.fill for trace in drawn] == ["toself", "toself", None, None]
    assert drawn[0].x.tolist() == [1, 2, 4, 4, 2, 1]
    assert drawn[0].y.tolist() == [0.9, 0.4, 0.0, 0.2, 0.6, 1]


def test_band_is_open_where_a_value_is_missing():
    gap = curve(x=[1, 2, 3, 4], y=[1] * 4, low=[0, 0, np.nan, 0], high=[2] * 4)
    band = figure.lines([gap], "x", "y").data[0]
    np.testing.assert_equal(band.x.tolist(), [1, 2, 2, 1, np.nan, 4, 4])


def test_references_and_region_are_named_in_the_legend():
    drawn = figure.lines(
        [curve()], "x", "y", references=[Reference(0.1, "chance")], region=Region(1, 2, "seen")
    )
    level, area = drawn.layout.shapes
    assert (level.name, level.y0, level.y1, level.line.dash) == ("chance", 0.1, 0.1, "dash")
    assert (area.name, area.x0, area.x1) == ("seen", 1, 2)
    assert drawn.layout.showlegend


def test_no_two_references_look_the_same():
    levels = [Reference(0.1 * place, str(place)) for place in range(4)]
    drawn = figure.lines([curve()], "x", "y", references=levels)
    assert len({one.line.dash for one in drawn.layout.shapes}) == len(levels)


def test_log_axis_labels_measured_places():
    axis = figure.lines([curve()], "x", "y", log_x=True).layout.xaxis
    assert (axis.type, axis.ticktext) == ("log", ("1", "2", "4"))


def test_log_axis_labels_at_most_nine_of_many_places():
    places = np.arange(1, 2000)
    axis = figure.lines([Series("a", places, places)], "x", "y", log_x=True).layout.xaxis
    assert 5 <= len(axis.tickvals) <= 9
    assert set(axis.tickvals) <= set(places.tolist())


def test_bars_carry_both_ends_of_the_interval():
    low, high = [0.25, 0.5], [1.0, 1.0]
    bar = figure.bars([Series("a", ["p", "q"], [0.5, 0.75], low, high)], "x", "y").data[0]
    assert bar.error_y.arrayminus.tolist() == [0.25, 0.25]
    assert bar.error_y.array.tolist() == [0.5, 0.25]


def test_long_labels_of_bars_are_broken_and_short_ones_are_left():
    names = ["a memory with a name of many words"] * 2 + ["<b> and c"]
    names[1] += " too"
    drawn = figure.bars([Series("a", names, [1, 2, 3])], "x", "y")
    shown = drawn.layout.xaxis.ticktext
    assert [one.replace("<br>", " ") for one in shown] == list(drawn.data[0].x)
    assert max(len(line) for one in shown[:2] for line in one.split("<br>")) <= figure.LETTERS / 3
    assert shown[2] == "&lt;b&gt; and c"
    many = [f"bar number {n}" for n in range(12)]  # too many for any line
    for left in (["p", "q"], many):
        drawn = figure.bars([Series("a", left, list(range(len(left))))], "x", "y")
        assert drawn.layout.xaxis.ticktext is None


def test_heatmap_keeps_equal_labels_apart():
    drawn = figure.heatmap(np.eye(3), ["the", "cat", "the"], [1, 2.5, 3], "x", "y", "z").data[0]
    assert len(set(drawn.x)) == 3
    assert [label.strip("\u200b") for label in drawn.x] == ["the", "cat", "the"]
    assert drawn.y == ("1", "2.5", "3")


def test_heatmap_travels_as_single_precision_not_as_digits():
    drawn = figure.heatmap(np.random.rand(64, 64), range(64), range(64), "x", "y", "z")
    z = json.loads(drawn.to_json())["data"][0]["z"]
    assert z["dtype"] == "f4"
    assert len(z["bdata"]) < 64 * 64 * 6


def test_no_text_is_read_as_markup():
    evil = "<b>&lt;s></b>"
    reference, region = [Reference(0, evil)], Region(1, 2, evil)
    drawn = [
        figure.lines([curve(evil)], evil, evil, references=reference, region=region),
        figure.bars([curve(evil, x=[evil, "b", "c"])], evil, evil, references=reference),
        figure.heatmap([[1.0]], [evil], [evil], evil, evil, evil),
    ]
    for one in drawn:
        text = json.dumps(json.loads(one.to_json())).replace("<br>", "").replace("<extra>", "")
        assert "<b>" not in text
        assert "&lt;b&gt;&amp;lt;s&gt;&lt;/b&gt;" in text


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: figure.lines([], "x", "y"), "at least one series"),
        (lambda: figure.lines([curve(y=[1])], "x", "y"), "3 x but"),
        (lambda: figure.lines([curve(low=None)], "x", "y"), "give low and high"),
        (lambda: figure.lines([curve(x=[[1, 2, 4]])], "x", "y"), "flat lists"),
        (lambda: figure.lines([curve(x=[0, 1, 2])], "x", "y", log_x=True), "above zero"),
        (lambda: figure.heatmap(np.eye(2), "ab", "abc", "x", "y", "z"), "3 row and 2 column"),
    ],
)
def test_mistakes_in_a_figure_are_explained(draw, message):
    with pytest.raises(UserError, match=message):
        draw()
