"""Small pictures side by side, and a slider through figures of one kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from mnemoscope.core.errors import UserError
from mnemoscope.plots.figure import AXIS, INK, MUTED, heatmap

if TYPE_CHECKING:
    import plotly.graph_objects as go

# Empty pixels between two pictures, by the size of the smaller side.
GAP = 8


def tiles(
    pictures: ArrayLike,
    rows: Sequence[str],
    columns: Sequence[str],
    z_title: str,
    *,
    marked: tuple[int, int] | None = None,
) -> go.Figure:
    """Draw pictures (R, C, height, width), named by row and column, as one figure.

    ``marked`` is a pixel (row, column) to be framed in every picture.
    """
    given = np.asarray(pictures, dtype=np.float32)
    if given.ndim != 4 or given.shape[:2] != (len(rows), len(columns)):
        raise UserError(
            f"tiles: {len(rows)} rows and {len(columns)} columns of names for {given.shape}"
        )
    height, width = given.shape[2:]
    gap = max(1, min(height, width) // GAP)
    framed = np.pad(given, ((0, 0), (0, 0), (0, gap), (0, gap)), constant_values=np.nan)
    canvas = framed.transpose(0, 2, 1, 3).reshape(len(rows) * (height + gap), -1)
    canvas = canvas[:-gap, :-gap]
    figure = heatmap(canvas, range(canvas.shape[1]), range(canvas.shape[0]), "", "", z_title)
    middle = {
        "x": [place * (width + gap) + (width - 1) / 2 for place in range(len(columns))],
        "y": [place * (height + gap) + (height - 1) / 2 for place in range(len(rows))],
    }
    plain: dict[str, Any] = {
        "showline": False,
        "ticks": "",
        "type": "linear",
        "constrain": "domain",
    }
    figure.update_xaxes(plain, tickvals=middle["x"], ticktext=list(columns), side="top")
    figure.update_yaxes(plain, tickvals=middle["y"], ticktext=list(rows), scaleanchor="x")
    figure.update_traces(
        x=list(range(canvas.shape[1])), y=list(range(canvas.shape[0])), xgap=0, ygap=0
    )
    if marked is not None:
        for top in range(len(rows)):
            for left in range(len(columns)):
                y, x = top * (height + gap) + marked[0], left * (width + gap) + marked[1]
                frame = {"x0": x - 0.5, "x1": x + 0.5, "y0": y - 0.5, "y1": y + 0.5}
                figure.add_shape(type="rect", line={"color": INK, "width": 2}, **frame)
    # A line of names above, a bar at the side: pictures of about 640 pixels in all.
    shape = canvas.shape[0] / canvas.shape[1]
    figure.update_layout(height=int(np.clip(110 + 640 * shape, 200, 760)))
    return figure


def slider(figures: Mapping[str, go.Figure], title: str) -> go.Figure:
    """Show one of several figures of a kind at a time, chosen by a slider named ``title``."""
    if not figures:
        raise UserError("a slider needs at least one figure")
    import plotly.graph_objects as go

    first = next(iter(figures.values()))
    traces, owner = [], []
    for place, figure in enumerate(figures.values()):
        for trace in figure.data:
            owner.append(place)
            traces.append(trace.update(visible=place == 0))
    steps = [
        {"label": name, "method": "restyle", "args": [{"visible": [one == place for one in owner]}]}
        for place, name in enumerate(figures)
    ]
    control = {
        "active": 0,
        "currentvalue": {"prefix": f"{title} ", "font": {"color": INK, "size": 14}},
        "font": {"color": MUTED},
        "bordercolor": AXIS,
        "bgcolor": AXIS,
        "tickcolor": AXIS,
        "pad": {"t": 52},
        # The names of the first and the last step reach beyond their ends.
        "x": 0.05,
        "len": 0.9,
        "steps": steps,
    }
    whole = go.Figure(data=traces, layout=first.layout)
    whole.update_layout(sliders=[control], height=(first.layout.height or 400) + 110)
    return whole
