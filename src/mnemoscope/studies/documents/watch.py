"""The section of the study `documents` in which a selection is learnt before the reader's eyes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mnemoscope.plots.figure import Series, heatmap, lines
from mnemoscope.report.document import Figure, Section
from mnemoscope.studies.documents.sentences import CONTROLS

if TYPE_CHECKING:
    import plotly.graph_objects as go


def watching(result: dict[str, Any]) -> Section:
    """An animation of one training, and the shape of all selections over time."""
    tracks = {
        label: result["fits"][f"{select} α=0.1"]
        for select, label in (("tanh", "tanh"), ("relu", "ReLU"))
    }
    first = tracks["tanh"][0]["frames"]
    words = []
    for label, fits in tracks.items():
        # By when the selection is nine tenths of the way to where it ends up.
        spans = np.array(
            [
                [np.linalg.norm(np.subtract(one, grids[-1])) for one in grids]
                for grids in (fit["frames"]["selections"] for fit in fits)
            ]
        )
        steps = fits[0]["frames"]["steps"]
        there = [int(steps[int(np.argmax(row <= 0.1 * row[0]))]) for row in spans]
        words.append(f"{label} after {min(there)} to {max(there)} of {steps[-1] + 1} steps")
    series, rows = [], []
    for label, fits in {
        **tracks,
        **{label: result["fits"][name] for name, label in CONTROLS.items()},
    }.items():
        shapes = [fit["shapes"] for fit in fits]
        values = np.array([[shape["apart / length"] for shape in one] for one in shapes])
        steps = [shape["step"] for shape in shapes[0]]
        series.append(Series(label, steps, values.mean(0), values.min(0), values.max(0)))
        rows += [
            {"selection": label, "seed": seed, **shape}
            for seed, one in enumerate(shapes)
            for shape in one
        ]
    return Section(
        "3 · Watch it being learnt",
        [
            "A selection is within a tenth of where it ends: " + "; ".join(words) + ".",
            Figure(
                "The selection while it is learnt",
                _animation(first),
                "tanh, α = 0.1, seed 0: press play or drag the slider. Without JavaScript and in "
                "saved files it shows the end.",
                [
                    {"step": step, "document": name}
                    | {f"e{entry}": gate for entry, gate in enumerate(row)}
                    for step, grid in zip(first["steps"], first["selections"], strict=True)
                    for name, row in zip(first["names"], grid, strict=True)
                ],
            ),
            Figure(
                "How far apart documents lie",
                lines(series, "step", "distance between selections / their length"),
                "α = 0.1 but for the controls. Line: mean over seeds; band: lowest to highest.",
                rows,
            ),
        ],
    )


def _animation(track: dict[str, Any]) -> go.Figure:
    import plotly.graph_objects as go

    grids, steps = track["selections"], track["steps"]
    entries = list(range(len(grids[0][0])))
    figure = heatmap(
        grids[-1], entries, track["names"], "entry", "", "gate", centre=0.0, z_range=(-1, 1)
    )
    figure.frames = [
        go.Frame(
            data=[{"type": "heatmap", "z": np.asarray(grid, dtype=np.float32)}], name=str(step)
        )
        for grid, step in zip(grids, steps, strict=True)
    ]
    now: dict[str, Any] = {"frame": {"duration": 0, "redraw": True}, "mode": "immediate"}
    play = {"frame": {"duration": 250, "redraw": True}, "fromcurrent": False}
    jumps = [
        {"method": "animate", "args": [[str(step)], now], "label": str(step)} for step in steps
    ]
    figure.update_layout(
        height=460,
        margin={"b": 130},
        sliders=[
            {
                "active": len(steps) - 1,
                "steps": jumps,
                "currentvalue": {"prefix": "step "},
                "pad": {"t": 46},
                "x": 0.12,
                "len": 0.88,
            }
        ],
        updatemenus=[
            {
                "type": "buttons",
                "x": 0,
                "y": 0,
                "xanchor": "left",
                "yanchor": "top",
                "pad": {"t": 62},
                "buttons": [{"label": "play", "method": "animate", "args": [None, play]}],
            }
        ],
    )
    return figure
