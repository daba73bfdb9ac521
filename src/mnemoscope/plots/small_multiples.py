"""Small figures side by side on one sheet: many curves stay readable when few share an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mnemoscope.core.errors import UserError
from mnemoscope.plots.figure import AXIS, CLEAR, INK, Json, plain, template

if TYPE_CHECKING:
    import plotly.graph_objects as go

# Share of the sheet between two columns; pixels of a panel, a line of its legend, axis labels.
GAP_X, PANEL, LINE, LABELS = 0.1, 190, 19, 40
# Pixels of letters in a legend, and across that a panel then needs at least, for "Compressive
# Transformer" to end before the next one: where there are fewer, the sheet is scrolled.
FEW, MANY = (12, 205), (10, 164)


def small_multiples(
    parts: Sequence[tuple[str, go.Figure]], columns: int = 2, ghosts: bool = True
) -> go.Figure:
    """Put figures next to each other, each under its own title and legend.

    With ``ghosts`` every panel shows the curves of all others in grey, named under the pointer. The
    titles of the axes are those of the last figure; what references and regions are is left to the
    caption.
    """
    import plotly.graph_objects as go

    if not parts:
        raise UserError("a sheet of panels needs at least one figure")
    given = [(title, figure.to_plotly_json()) for title, figure in parts]
    rows = -(-len(given) // columns)
    named = [len(_curves(figure)) for _, figure in given]
    # Names stand above their panel, one a line: side by side they would run into the next one.
    head = LINE * (max(named) + 1) + 8
    drawn = rows * PANEL + (rows - 1) * (head + LABELS)
    gap_y, tall = (head + LABELS) / drawn, PANEL / drawn
    gap_x = 2 * GAP_X / columns
    width = (1 - gap_x * (columns - 1)) / columns
    letters, narrowest = FEW if columns < 4 else MANY
    data: list[Json] = []
    layout: Json = {"template": template(), "height": drawn + head + 60, "shapes": []}
    layout["margin"] = {"l": 52, "r": 8, "t": head, "b": 60}
    # Of many lines the one that is pointed at is named.
    layout["hovermode"] = "closest" if ghosts else given[0][1]["layout"].get("hovermode", "closest")
    layout["hoverdistance"] = -1
    for place, (title, figure) in enumerate(given):
        row, column = divmod(place, columns)
        number = "" if place == 0 else str(place + 1)
        left, top = column * (width + gap_x), 1 - row * (tall + gap_y)
        axes = {"xaxis": f"x{number}", "yaxis": f"y{number}"}
        if ghosts:
            own_names = {trace["name"] for trace in _curves(figure)}
            data += [
                _ghost(trace) | axes
                for _, other in given
                for trace in _curves(other)
                if trace["name"] not in own_names
            ]
        data += [trace | axes | {"legend": f"legend{number}"} for trace in figure["data"]]
        own = figure["layout"]
        x_axis, y_axis = dict(own["xaxis"]), dict(own["yaxis"])
        # Lines to the axes show which point is meant.
        spikes = {"showspikes": ghosts, "spikedash": "dot", "spikemode": "across"}
        x_axis |= spikes | {"domain": [left, min(1.0, left + width)], "anchor": axes["yaxis"]}
        y_axis |= spikes | {"domain": [max(0.0, top - tall), top], "anchor": axes["xaxis"]}
        x_title, y_title = x_axis.pop("title")["text"], y_axis.pop("title")["text"]
        layout |= {f"xaxis{number}": x_axis, f"yaxis{number}": y_axis}
        layout[f"legend{number}"] = {
            "x": left, "y": top, "xanchor": "left", "yanchor": "bottom", "orientation": "v",
            "title": {"text": f"<b>{plain(title)}</b>"}, "tracegroupgap": 0,
        }  # fmt: skip
        # The template speaks of the first legend only.
        font = {"color": INK, "size": letters}
        layout[f"legend{number}"] |= {"bgcolor": CLEAR, "font": font}
        layout["shapes"] += [_moved(shape, axes) for shape in own.get("shapes", ())]
    layout["meta"] = {"min_width": columns * narrowest, "x_title": x_title}
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
    same = {key: trace[key] for key in ("type", "x", "y", "name", "hovertemplate")}
    same |= {"customdata": trace["customdata"]} if "customdata" in trace else {}
    return same | {"mode": "lines", "line": {"color": AXIS, "width": 1}, "showlegend": False}


def _moved(shape: Json, axes: Json) -> Json:
    moved = dict(shape)
    x_in, y_in = shape.get("xref") == "paper", shape.get("yref") == "paper"
    moved["xref"] = f"{axes['xaxis']} domain" if x_in else axes["xaxis"]
    moved["yref"] = f"{axes['yaxis']} domain" if y_in else axes["yaxis"]
    # The caption says what it is.
    return moved | {"showlegend": False}
