"""Small figures side by side on one sheet: many curves stay readable when few share an axis."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mnemoscope.core.errors import UserError
from mnemoscope.plots.figure import AXIS, CLEAR, INK, Json, template

if TYPE_CHECKING:
    import plotly.graph_objects as go

# Share of the sheet between columns; pixels of a panel, of a line of its legend, of axis labels.
GAP_X, PANEL, LINE, LABELS = 0.1, 190, 19, 40


def small_multiples(
    parts: Sequence[tuple[str, go.Figure]], columns: int = 2, ghosts: bool = True
) -> go.Figure:
    """Put figures next to each other, each under its own title and legend.

    With ``ghosts`` every panel shows the curves of all others in grey. The titles of the axes are
    those of the last figure; what references and regions are is left to the caption.
    """
    import plotly.graph_objects as go

    if not parts:
        raise UserError("a sheet of panels needs at least one figure")
    plain = [(title, figure.to_plotly_json()) for title, figure in parts]
    rows = -(-len(plain) // columns)
    named = [len(_curves(figure)) for _, figure in plain]
    # Names stand above their panel, one a line: side by side they would run into the next one.
    head = LINE * (max(named) + 1) + 8
    drawn = rows * PANEL + (rows - 1) * (head + LABELS)
    gap_y, tall = (head + LABELS) / drawn, PANEL / drawn
    width = (1 - GAP_X * (columns - 1)) / columns
    data: list[Json] = []
    layout: Json = {"template": template(), "height": drawn + head + 60, "shapes": []}
    layout["margin"] = {"l": 52, "r": 8, "t": head, "b": 60}
    layout["hovermode"] = plain[0][1]["layout"].get("hovermode", "closest")
    for place, (title, figure) in enumerate(plain):
        row, column = divmod(place, columns)
        number = "" if place == 0 else str(place + 1)
        left, top = column * (width + GAP_X), 1 - row * (tall + gap_y)
        axes = {"xaxis": f"x{number}", "yaxis": f"y{number}"}
        if ghosts:
            own_names = {trace["name"] for trace in _curves(figure)}
            data += [
                _ghost(trace) | axes
                for _, other in plain
                for trace in _curves(other)
                if trace["name"] not in own_names
            ]
        data += [trace | axes | {"legend": f"legend{number}"} for trace in figure["data"]]
        own = figure["layout"]
        x_axis, y_axis = dict(own["xaxis"]), dict(own["yaxis"])
        x_axis |= {"domain": [left, min(1.0, left + width)], "anchor": axes["yaxis"]}
        y_axis |= {"domain": [max(0.0, top - tall), top], "anchor": axes["xaxis"]}
        x_title, y_title = x_axis.pop("title")["text"], y_axis.pop("title")["text"]
        layout |= {f"xaxis{number}": x_axis, f"yaxis{number}": y_axis}
        layout[f"legend{number}"] = {
            "x": left, "y": top, "xanchor": "left", "yanchor": "bottom", "orientation": "v",
            "title": {"text": f"<b>{html.escape(title, quote=False)}</b>"}, "tracegroupgap": 0,
        }  # fmt: skip
        # The template speaks of the first legend only.
        layout[f"legend{number}"] |= {"bgcolor": CLEAR, "font": {"color": INK, "size": 12}}
        layout["shapes"] += [_moved(shape, axes) for shape in own.get("shapes", ())]
    # Said once for all panels: on a phone, titles of two columns would run into each other.
    place_x = {"x": 0.5, "y": 0, "yshift": -34, "yanchor": "top"}
    place_y = {"x": 0, "y": 0.5, "xshift": -34, "xanchor": "right", "textangle": -90}
    layout["annotations"] = [
        {"text": text, "xref": "paper", "yref": "paper", "showarrow": False} | place
        for text, place in ((x_title, place_x), (y_title, place_y))
    ]
    return go.Figure(data=data, layout=layout | {"showlegend": True})


def _curves(figure: Any) -> list[Json]:
    return [trace for trace in figure["data"] if trace.get("hoverinfo") != "skip"]


def _ghost(trace: Json) -> Json:
    line = {"color": AXIS, "width": 1}
    return {"type": "scatter", "mode": "lines", "x": trace["x"], "y": trace["y"], "line": line} | {
        "showlegend": False,
        "hoverinfo": "skip",
    }


def _moved(shape: Json, axes: Json) -> Json:
    moved = dict(shape)
    x_in, y_in = shape.get("xref") == "paper", shape.get("yref") == "paper"
    moved["xref"] = f"{axes['xaxis']} domain" if x_in else axes["xaxis"]
    moved["yref"] = f"{axes['yaxis']} domain" if y_in else axes["yaxis"]
    # The caption says what it is.
    return moved | {"showlegend": False}
