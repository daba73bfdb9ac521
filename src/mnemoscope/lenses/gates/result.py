"""How far gates open: options, result and page of the lens.

Shapes: T tokens, G gates, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from mnemoscope.core.arrays import Floats
from mnemoscope.lenses.lens import MOST, Part, Records, Result, TextOptions, records
from mnemoscope.plots.figure import Plot, Series, heatmap, lines
from mnemoscope.report.document import Figure


class GatesOptions(TextOptions):
    """Which gates are watched."""

    layer: int = Field(0, ge=0, le=MOST, description="whose gates; 0 is the lowest layer")


@dataclass(frozen=True, eq=False)
class GatesResult(Result):
    """What one layer's gates did.

    names    the G gates
    mean     (T, G) over rows and units
    low      (T, G) a tenth of rows and units lies below, high a tenth above
    example  (T, G, D) the first row that was observed
    """

    names: tuple[str, ...]
    mean: Floats
    low: Floats
    high: Floats
    example: Floats

    def table(self) -> Records:
        """One row per token and gate."""
        return records(
            {"token": range(len(self.mean)), "gate": self.names},
            {"mean": self.mean, "low": self.low, "high": self.high},
        )

    def figure(self) -> Plot:
        """Curves of all gates over time, with the spread over units as bands."""
        steps = np.arange(len(self.mean))
        series = [
            Series(name, steps, self.mean[:, g], self.low[:, g], self.high[:, g])
            for g, name in enumerate(self.names)
        ]
        return lines(series, "token", "gate", y_range=(-1.05, 1.05))

    def units(self, gate: str, tokens: Sequence[object]) -> Plot:
        """One gate of the example as a picture: units down, tokens across."""
        which = self.names.index(gate)
        picture = self.example[:, which].T
        # Units that behave alike stand together.
        order = np.argsort(picture.mean(1))
        labels = [f"unit {unit}" for unit in order]
        return heatmap(picture[order], tokens, labels, "token read", "unit", gate, z_range=(0, 1))

    def parts(self) -> list[Part]:
        """Curves of all gates, and the units of the first one while it reads the first text."""
        mean = self.mean.mean(0)
        said = ", ".join(
            f"{name} {value:.2f}" for name, value in zip(self.names, mean, strict=True)
        )
        steps = range(len(self.mean))
        first = self.example[:, 0]
        units = records({"token": steps, "unit": range(first.shape[1])}, {self.names[0]: first})
        band = "Mean over texts and units; band: 80 % of them."
        picture = self.units(self.names[0], steps)
        return [
            f"In the mean over tokens: {said}. Gates lie between 0 (closed) and 1 (open), "
            "candidates between −1 and 1.",
            Figure("Gates over time", self.figure(), band, self.table()),
            Figure(f"Units of the {self.names[0]} gate", picture, "First text.", units),
        ]
