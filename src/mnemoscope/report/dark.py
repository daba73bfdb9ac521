"""Figures are drawn for paper; this names the partner of each of their colours on a dark page."""

from __future__ import annotations

from mnemoscope.plots import figure

INK, MUTED, AXIS, GRID, PAPER = "#e6e9ee", "#9ca6b3", "#4a535f", "#262d36", "#1d232b"
# Transparent on paper, but plotly takes transparent for white where it derives colours.
CLEAR = "#12161b"
SHADE = "rgba(156,166,179,0.13)"
SERIES = ("#5a8fec", "#fb9c28", "#40c99b", "#d8619b", "#a08c10", "#8fe3ff", "#9aa3af", "#c9a2ee")
SEQUENTIAL = ("#1a2027", "#1f4a6e", "#2f7fb8", "#7dbbe6", "#d9eefc")
DIVERGING = ("#ffb37a", "#b35c1c", "#1c2127", "#2b73a8", "#9fd0f5")


def dark_colours() -> dict[str, str]:
    """Map every colour of `mnemoscope.plots.figure` to its dark partner."""
    pairs = {
        figure.INK: INK,
        figure.MUTED: MUTED,
        figure.AXIS: AXIS,
        figure.GRID: GRID,
        figure.PAPER: PAPER,
        figure.CLEAR: CLEAR,
        figure.SHADE: SHADE,
    }
    for light, dark in zip(figure.SERIES, SERIES, strict=True):
        pairs |= {light: dark, figure.translucent(light): figure.translucent(dark)}
    pairs |= zip(figure.SEQUENTIAL, SEQUENTIAL, strict=True)
    pairs |= zip(figure.DIVERGING, DIVERGING, strict=True)
    return pairs
