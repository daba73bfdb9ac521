"""The section of the study `documents` in which a selection is learnt before the reader's eyes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mnemoscope.plots.figure import AXIS, CLEAR, INK, heatmap
from mnemoscope.report.document import Figure, Section
from mnemoscope.studies.curves import curves_figure
from mnemoscope.studies.documents.result import DocumentsResult, Frames
from mnemoscope.studies.documents.sentences import APART, gate_rows, shape_curve
from mnemoscope.studies.documents.settings import CONTROLS, GUIDED, guided

if TYPE_CHECKING:
    import plotly.graph_objects as go


def learning_section(result: DocumentsResult) -> Section:
    """Question 3: one training as an animation, and the shape of all selections over time."""
    guided_names = {guided("tanh"): "tanh", guided("relu"): "ReLU"}
    words: list[str] = []
    for setting, label in guided_names.items():
        tracks = result.each(setting, lambda fit: fit.frames)
        there = [_settled(one) for one in tracks]
        steps = tracks[0].steps[-1] + 1
        told = " to ".join(dict.fromkeys(map(str, (min(there), max(there)))))
        words.append(f"{label} after {told} of {steps} steps")
    first = result.each(GUIDED, lambda fit: fit.frames)[0]
    curves = [
        shape_curve(result, setting, label, selection=label)
        for setting, label in {**guided_names, **CONTROLS}.items()
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
                    {"step": step, **row}
                    for step, grid in zip(first.steps, first.selections, strict=True)
                    for row in gate_rows(first.names, grid)
                ],
            ),
            curves_figure(
                "How far apart documents lie",
                curves,
                APART,
                "α = 0.1 but for the controls. Line: mean over seeds; band: lowest to highest.",
            ),
        ],
    )


def _settled(frames: Frames) -> int:
    """By which step a selection is nine tenths of the way to where it ends up."""
    end = frames.selections[-1]
    far = np.array([np.linalg.norm(np.subtract(one, end)) for one in frames.selections])
    return frames.steps[int(np.argmax(far <= 0.1 * far[0]))]


def _animation(track: Frames) -> go.Figure:
    import plotly.graph_objects as go

    grids, steps = track.selections, track.steps
    entries = list(range(len(grids[0][0])))
    figure = heatmap(
        grids[-1], entries, track.names, "entry", "", "gate", centre=0.0, z_range=(-1, 1)
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
    slider: dict[str, Any] = {
        "active": len(steps) - 1,
        "steps": jumps,
        "currentvalue": {"prefix": "step "},
    }
    slider |= {"pad": {"t": 46}}
    button: dict[str, Any] = {"label": "play", "method": "animate", "args": [None, play]}
    menu: dict[str, Any] = {"type": "buttons", "buttons": [button], "pad": {"t": 128}}
    menu |= {"x": 0, "y": 0, "xanchor": "left", "yanchor": "top"}
    menu |= {"bgcolor": CLEAR, "bordercolor": AXIS, "font": {"color": INK}}
    figure.update_layout(height=510, margin={"b": 180}, sliders=[slider], updatemenus=[menu])
    return figure
