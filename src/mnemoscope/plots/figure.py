"""The one visual language: colours, template and the few kinds of figure that everything uses.

Each series has its own dash, marker and hatching, so no figure depends on colour alone. All text
is shown as it is given, never read as markup.
"""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from mnemoscope.core.arrays import Floats
from mnemoscope.core.errors import UserError

if TYPE_CHECKING:
    import plotly.graph_objects as go

# For annotations elsewhere: plotly takes long to import, and most programs draw nothing.
Plot: TypeAlias = "go.Figure"
Json = dict[str, Any]
Span = tuple[float, float] | None

INK, MUTED, AXIS, GRID, PAPER = "#1c2128", "#5b6470", "#bcc3cc", "#e8ebef", "#ffffff"
CLEAR, SHADE = "rgba(0,0,0,0)", "rgba(91,100,112,0.09)"
# Chosen by search: any two of the first five stay apart under the three kinds of colour blindness.
SERIES = ("#2651b4", "#d07b19", "#1aa57d", "#ab426d", "#675700", "#3b83a8", "#333a44", "#9a6fe0")
# Low to high; the ramps start or part in the colour of the page, so nothing looks like nothing.
SEQUENTIAL = ("#f2f5f8", "#b5d2e8", "#64a3cf", "#1f6da8", "#08365f")
DIVERGING = ("#8f3d00", "#e0945a", "#f3f4f5", "#6aa6d0", "#08487a")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "x", "star")
HATCHES = ("", "/", ".", "\\", "x", "-", "|", "+")
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'
MOST_MARKERS, MOST_TICKS, MOST_GAPS = 40, 9, 48
# Letters that fit side by side under the bars of a figure as wide as a page, and of a long word.
LETTERS, LONG_WORD = 80, 10


@dataclass(frozen=True, eq=False)
class Series:
    """One line, or one group of bars; ``low`` and ``high`` are the ends of its uncertainty.

    ``style`` (0, 1, 2, …) makes a thing look the same in all figures; else its place decides.
    """

    name: str
    x: ArrayLike
    y: ArrayLike
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    style: int | None = None


@dataclass(frozen=True)
class Reference:
    """A level to compare with, such as chance: a dashed line across the figure."""

    value: float
    label: str


@dataclass(frozen=True)
class Region:
    """A shaded stretch of the x axis, such as the lags seen in training."""

    low: float
    high: float
    label: str


def template() -> Json:
    """Return the plotly template of all figures, for ``layout.template`` of one made by hand."""
    font = {"color": INK, "family": FONT, "size": 13}
    axis: Json = {"automargin": True, "color": MUTED, "gridcolor": GRID, "zeroline": False}
    axis |= {"linecolor": AXIS, "showline": True, "tickcolor": AXIS, "ticklen": 4}
    axis |= {"spikecolor": MUTED, "spikethickness": 1}
    axis |= {"ticks": "outside", "title": {"font": font, "standoff": 12}}
    legend = {"font": font, "orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}
    legend |= {"bgcolor": CLEAR, "tracegroupgap": 0}
    layout: Json = {"colorway": SERIES, "font": font, "height": 400, "legend": legend}
    layout |= {
        "hoverlabel": {"bgcolor": PAPER, "bordercolor": AXIS, "font": font, "namelength": -1}
    }
    layout |= {"margin": {"l": 64, "r": 24, "t": 28, "b": 56}}
    layout |= {"modebar": {"activecolor": INK, "bgcolor": CLEAR, "color": MUTED}}
    layout |= {"paper_bgcolor": CLEAR, "plot_bgcolor": CLEAR}
    layout |= {"xaxis": axis | {"showgrid": False}, "yaxis": axis}
    return {"layout": layout}


def lines(
    series: Sequence[Series],
    x_title: str,
    y_title: str,
    *,
    references: Sequence[Reference] = (),
    region: Region | None = None,
    log_x: bool = False,
    y_range: Span = None,
) -> go.Figure:
    """Draw curves with their uncertainty as translucent bands."""
    bands: list[Json] = []
    curves: list[Json] = []
    for place, one in enumerate(series):
        style = place if one.style is None else one.style
        colour = SERIES[style % len(SERIES)]
        x, name = _column(one, one.x), plain(one.name)
        y, interval = _values(one, len(x))
        mode = "lines" if len(x) > MOST_MARKERS else "lines+markers"
        line = {"color": colour, "dash": DASHES[style % len(DASHES)], "width": 2.2}
        marker = {"color": colour, "size": 7, "symbol": SYMBOLS[style % len(SYMBOLS)]}
        curve = {"type": "scatter", "mode": mode, "x": x, "y": y, "line": line, "marker": marker}
        # The group lets one legend entry hide a curve and its band together.
        curves.append(curve | _naming(one, interval) | {"legendgroup": name})
        if interval is not None:
            edge_x, edge_y = _outline(x, *interval)
            band: Json = {"type": "scatter", "x": edge_x, "y": edge_y, "fill": "toself"}
            band |= {"mode": "lines", "line": {"width": 0}, "fillcolor": translucent(colour)}
            bands.append(band | {"legendgroup": name, "showlegend": False, "hoverinfo": "skip"})
    layout = _layout(x_title, y_title, len(series), references, y_range)
    layout |= {"hovermode": "x unified", "hoverdistance": -1}
    if region is not None:
        area: Json = {"yref": "paper", "y0": 0, "y1": 1, "x0": region.low, "x1": region.high}
        area |= {"fillcolor": SHADE, "layer": "below", "line": {"width": 0}}
        layout["shapes"].append(_shape("rect", region.label, **area))
        layout["showlegend"] = True
    if log_x:
        layout["xaxis"] |= _log_axis(np.concatenate([curve["x"] for curve in curves]))
    # Bands come first so that none covers the line of another series.
    return _figure(bands + curves, layout)


def bars(
    series: Sequence[Series],
    x_title: str,
    y_title: str,
    *,
    references: Sequence[Reference] = (),
    y_range: Span = None,
) -> go.Figure:
    """Draw groups of bars with error bars; the ``x`` of a series are its labels."""
    traces = []
    for place, one in enumerate(series):
        style = place if one.style is None else one.style
        labels = [plain(str(label)) for label in np.asarray(one.x).tolist()]
        y, interval = _values(one, len(labels))
        hatch = HATCHES[style % len(HATCHES)] if len(series) > 1 else ""
        pattern = {
            "fgcolor": PAPER,
            "fgopacity": 0.6,
            "fillmode": "overlay",
            "shape": hatch,
            "size": 7,
        }
        marker = {"color": SERIES[style % len(SERIES)], "pattern": pattern}
        trace = {"type": "bar", "x": labels, "y": y, "marker": marker}
        if interval is not None:
            low, high = interval
            whisker = {"type": "data", "symmetric": False, "array": high - y, "arrayminus": y - low}
            trace["error_y"] = whisker | {"color": INK, "thickness": 1.2, "width": 4}
        traces.append(trace | _naming(one, interval))
    layout = _layout(x_title, y_title, len(series), references, y_range)
    layout["xaxis"] |= {"type": "category"} | _in_lines([str(x) for x in traces[0]["x"]])
    return _figure(traces, layout | {"bargap": 0.3, "bargroupgap": 0.08})


def _in_lines(labels: list[str]) -> Json:
    """Break labels that are too long for their place, which would be turned and need the height."""
    room = LETTERS // len(labels) if labels else LETTERS
    # Below that they would be turned all the same, and lines that are turned are hard to read.
    if room < LONG_WORD:
        return {}
    lines = [textwrap.wrap(one, room, break_long_words=False) for one in labels]
    if all(len(one) < 2 for one in lines):
        return {}
    return {"tickvals": labels, "ticktext": ["<br>".join(one) for one in lines]}


def heatmap(
    z: ArrayLike,
    x: Sequence[object],
    y: Sequence[object],
    x_title: str,
    y_title: str,
    z_title: str,
    *,
    centre: float | None = None,
    z_range: Span = None,
) -> go.Figure:
    """Draw a matrix, first row on top. With ``centre`` two colours part there (signed values)."""
    # Single precision halves the page and is finer than any colour.
    values = np.asarray(z, dtype=np.float32)
    if values.shape != (len(y), len(x)):
        raise UserError(f"heatmap: {len(y)} row and {len(x)} column labels for {values.shape}")
    ramp = SEQUENTIAL if centre is None else DIVERGING
    title = {"font": {"size": 13}, "side": "right", "text": plain(z_title)}
    bar = {"outlinewidth": 0, "thickness": 12, "tickfont": {"color": MUTED}, "title": title}
    scale = [[i / (len(ramp) - 1), colour] for i, colour in enumerate(ramp)]
    trace: Json = {"type": "heatmap", "x": _distinct(x), "y": _distinct(y), "z": values}
    trace |= {"colorscale": scale, "colorbar": bar}
    trace |= {"xgap": int(len(x) <= MOST_GAPS), "ygap": int(len(y) <= MOST_GAPS)}
    trace |= {"hovertemplate": "%{y} · %{x}<br>%{z:.4g}<extra></extra>"}
    if centre is not None:
        trace["zmid"] = centre
    if z_range is not None:
        trace |= {"zmin": z_range[0], "zmax": z_range[1]}
    layout = _layout(x_title, y_title, 1, (), None)
    layout["xaxis"] |= {"type": "category"}
    layout["yaxis"] |= {"type": "category", "autorange": "reversed", "showgrid": False}
    layout["height"] = min(max(140 + 22 * len(y), 280), 640)
    return _figure([trace], layout)


def translucent(colour: str) -> str:
    """Return the colour of the band around a line of ``colour``."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.16)"


def _figure(traces: list[Json], layout: Json) -> go.Figure:
    import plotly.graph_objects as go

    return go.Figure(data=traces, layout=layout | {"template": template()})


def _layout(
    x_title: str, y_title: str, count: int, references: Sequence[Reference], y_range: Span
) -> Json:
    if count == 0:
        raise UserError("a figure needs at least one series")
    shapes = [
        _shape(
            *("line", one.label), xref="paper", x0=0, x1=1, y0=one.value, y1=one.value,
            line={"color": MUTED, "dash": DASHES[1 + place % (len(DASHES) - 1)], "width": 1.2},
        )
        for place, one in enumerate(references)
    ]  # fmt: skip
    layout: Json = {"shapes": shapes, "showlegend": count + len(references) > 1}
    layout["xaxis"] = {"title": {"text": plain(x_title)}}
    layout["yaxis"] = {"title": {"text": plain(y_title)}}
    if y_range is not None:
        layout["yaxis"]["range"] = list(y_range)
    return layout


def _shape(kind: str, label: str, **place: Any) -> Json:
    """Label a shape in the legend, the one place where no curve can run through the words."""
    return {"type": kind, "name": plain(label), "showlegend": True} | place


def _naming(one: Series, interval: tuple[Floats, Floats] | None) -> Json:
    """Name a trace, and say value and interval under the pointer."""
    # Seven digits for values without interval: they may be counts, such as bytes.
    if interval is None:
        return {"name": plain(one.name), "hovertemplate": "%{y:.7~g}"}
    hover = "%{y:.4~g}  (%{customdata[0]:.4~g} to %{customdata[1]:.4~g})"
    ends = np.stack(interval, axis=1)
    return {"name": plain(one.name), "hovertemplate": hover, "customdata": ends}


def _log_axis(x: Floats) -> Json:
    """Label the measured places themselves, as many as have room at phone width."""
    places = np.unique(x[np.isfinite(x)])
    if places.size == 0 or places[0] <= 0:
        raise UserError("a logarithmic x axis needs values above zero")
    room = math.log(places[-1] / places[0]) / (MOST_TICKS - 1)
    shown: list[float] = []
    for place in places.tolist():
        if not shown or math.log(place / shown[-1]) >= room * 0.999:
            shown.append(place)
    return {"type": "log", "tickvals": shown, "ticktext": [f"{place:.6g}" for place in shown]}


def _outline(x: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Walk around the band, once for each stretch without a missing value."""
    known = np.isfinite(x) & np.isfinite(low) & np.isfinite(high)
    gap = np.array([np.nan])
    edge_x, edge_y = [gap], [gap]
    for run in np.split(np.arange(len(x)), np.flatnonzero(np.diff(known)) + 1):
        if len(run) and known[run[0]]:
            edge_x += [x[run], x[run[::-1]], gap]
            edge_y += [low[run], high[run[::-1]], gap]
    return np.concatenate(edge_x[1:-1] or [gap]), np.concatenate(edge_y[1:-1] or [gap])


def _values(one: Series, length: int) -> tuple[Floats, tuple[Floats, Floats] | None]:
    """Return y and its interval as numbers, after checking that they belong together."""
    columns = [_column(one, part) for part in (one.y, one.low, one.high) if part is not None]
    if len(columns) == 2:
        raise UserError(f"series {one.name!r} has one end of its interval; give low and high")
    sizes = {len(column) for column in columns}
    if sizes != {length}:
        raise UserError(f"series {one.name!r} has {length} x but {sorted(sizes)} values")
    return columns[0], (columns[1], columns[2]) if len(columns) == 3 else None


def _column(one: Series, values: ArrayLike) -> Floats:
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1:
        raise UserError(f"series {one.name!r} needs flat lists of numbers, got {column.shape}")
    return column


def _distinct(labels: Sequence[object]) -> list[str]:
    """Keep equal labels (a word read twice) apart, which plotly would merge into one place."""
    texts = [plain(f"{one:g}" if isinstance(one, float) else str(one)) for one in labels]
    return [text + "\u200b" * texts[:place].count(text) for place, text in enumerate(texts)]


def plain(text: str) -> str:
    """Keep plotly from reading tags and entities into a text; tokens are often called <s>."""
    return html.escape(text, quote=False)
