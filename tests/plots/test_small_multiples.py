from __future__ import annotations

from typing import Any

import pytest

from mnemoscope.core.errors import UserError
from mnemoscope.plots.figure import Reference, Series, lines
from mnemoscope.plots.small_multiples import small_multiples


def figure(*names: str, **options: Any) -> object:
    return lines([Series(name, [1, 2, 4], [1, 2, 3], [0, 1, 2], [2, 3, 4]) for name in names],
                 "age", "bits", log_x=True, **options)  # fmt: skip


def test_every_panel_has_its_own_axes_title_and_legend() -> None:
    sheet = small_multiples(
        [("one", figure("a", "b")), ("<two>", figure("c")), ("three", figure("d"))]
    )
    layout = sheet.layout
    assert [layout[f"legend{n}"].title.text for n in ("", 2, 3)] == [
        "<b>one</b>",
        "<b>&lt;two&gt;</b>",
        "<b>three</b>",
    ]
    named = {
        (trace.name, trace.xaxis, trace.legend)
        for trace in sheet.data
        if trace.legend and trace.name
    }
    assert named == {
        ("a", "x", "legend"), ("b", "x", "legend"), ("c", "x2", "legend2"), ("d", "x3", "legend3"),
    }  # fmt: skip
    spans = [layout[f"xaxis{n}"].domain + layout[f"yaxis{n}"].domain for n in ("", 2, 3)]
    assert spans[0][1] < spans[1][0]
    assert spans[2][3] < spans[0][2]
    assert layout.xaxis.type == layout.xaxis3.type == "log"
    assert [note.text for note in layout.annotations] == ["age", "bits"]


@pytest.mark.parametrize("columns", [2, 4])
def test_a_phone_scrolls_a_sheet_before_a_name_is_cut_off(columns: int) -> None:
    name = "Compressive Transformer"
    layout = small_multiples([("one", figure(name)), ("two", figure(name))], columns).layout
    width = layout.meta["min_width"] - layout.margin.l - layout.margin.r
    from_one_to_the_next = (layout.xaxis2.domain[0] - layout.xaxis.domain[0]) * width
    # A line and its mark take 40 pixels, a letter half of its height.
    assert from_one_to_the_next > 40 + 0.5 * layout.legend.font.size * len(name) - 1


def test_ghosts_are_the_curves_of_all_others() -> None:
    parts = [("one", figure("a", "b")), ("two", figure("c"))]
    ghosts = [trace for trace in small_multiples(parts).data if trace.line.width == 1]
    assert sorted(trace.xaxis for trace in ghosts) == ["x", "x2", "x2"]
    assert not any(trace.showlegend for trace in ghosts)
    # Named under the pointer, with the value and interval that the curve itself says.
    assert {trace.name for trace in ghosts if trace.xaxis == "x2"} == {"a", "b"}
    assert all(trace.hoverinfo != "skip" and trace.hovertemplate for trace in ghosts)
    assert small_multiples(parts).layout.hovermode == "closest"
    assert not [
        trace for trace in small_multiples(parts, ghosts=False).data if trace.line.width == 1
    ]


def test_references_stay_in_their_panel() -> None:
    chance = [Reference(0.5, "chance")]
    sheet = small_multiples([("one", figure("a")), ("two", figure("b", references=chance))])
    (shape,) = sheet.layout.shapes
    assert (shape.xref, shape.yref) == ("x2 domain", "y2")
    with pytest.raises(UserError, match="at least one figure"):
        small_multiples([])
