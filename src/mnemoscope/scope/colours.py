"""The colours of figures as a style sheet, so that page and reports have the same ones."""

from __future__ import annotations

from mnemoscope.plots import figure
from mnemoscope.report import dark


def sheet() -> str:
    """CSS variables for light and dark screens."""
    light = _rules(figure.SERIES, figure.SEQUENTIAL, figure.DIVERGING, figure.GRID, figure.AXIS)
    night = _rules(dark.SERIES, dark.SEQUENTIAL, dark.DIVERGING, dark.GRID, dark.AXIS)
    return (
        f":root {{ {light} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {night} }} }}\n"
    )


def _rules(
    series: tuple[str, ...],
    sequential: tuple[str, ...],
    diverging: tuple[str, ...],
    grid: str,
    axis: str,
) -> str:
    named = {"series": series, "ramp": sequential, "split": diverging}
    rules = [
        f"--{name}-{place}: {colour};"
        for name, colours in named.items()
        for place, colour in enumerate(colours)
    ]
    return " ".join([*rules, f"--grid: {grid};", f"--axis: {axis};"])
