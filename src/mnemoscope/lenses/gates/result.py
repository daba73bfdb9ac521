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
from mnemoscope.report.document import Figure, Finding, finding

# A gate is the sigmoid of its input; the least by which the mean of one must move to be said to.
HALF_OPEN, LEAST_MOVED = 0.5, 0.02
OF_ALL = "Mean over texts and units; band: 80 % of them."


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

    @property
    def gates(self) -> list[int]:
        """Which of the names are gates: a candidate is what is let in, between −1 and 1."""
        return [g for g, name in enumerate(self.names) if name != "candidate"]

    def figure(self) -> Plot:
        """Curves of all gates over time, with the spread over units as bands."""
        return self._curves(self.gates, "how far open")

    def _curves(self, shown: Sequence[int], title: str) -> Plot:
        steps = np.arange(len(self.mean))
        series = [
            Series(self.names[g], steps, self.mean[:, g], self.low[:, g], self.high[:, g], g)
            for g in shown
        ]
        lowest = min(0.0, float(self.low[:, list(shown)].min()))
        return lines(series, "token", title, y_range=(lowest - 0.02, 1.02))

    def units(self, gate: str, tokens: Sequence[object]) -> Plot:
        """One gate of the example as a picture: units down, tokens across."""
        which = self.names.index(gate)
        picture = self.example[:, which].T
        # Units that behave alike stand together.
        order = np.argsort(picture.mean(1))
        labels = [f"unit {unit}" for unit in order]
        return heatmap(picture[order], tokens, labels, "token read", "unit", gate, z_range=(0, 1))

    def finding(self) -> Finding:
        """Which gate is furthest from half open, and which one moves most along the text."""
        mean, low, high = (of.mean(0) for of in (self.mean, self.low, self.high))
        far = max(self.gates, key=lambda g: abs(mean[g] - HALF_OPEN))
        name = self.names[far]
        at = (
            f"open to {mean[far]:.2f} on average over tokens (80 % of texts and units: "
            f"{low[far]:.2f} to {high[far]:.2f})"
        )
        apart = low[far] > HALF_OPEN or high[far] < HALF_OPEN
        moved = np.ptp(self.mean, axis=0)
        most = max(self.gates, key=lambda g: moved[g])
        curve = self.mean[:, most]
        return finding(
            f"The {name} gate is furthest from half open, the state of a gate without input: it is "
            f"{at}."
            if apart
            else f"No gate is distinguishable from half open, the state of a gate without input; "
            f"furthest from it is the {name} gate, {at}.",
            f"The {self.names[most]} gate moves most along the text: averaged over texts and "
            f"units, it is lowest at token {curve.argmin()} ({curve.min():.2f}) and highest at "
            f"token {curve.argmax()} ({curve.max():.2f})."
            if moved[most] >= LEAST_MOVED
            else f"Averaged over texts and units, no gate moves by as much as {LEAST_MOVED:g} "
            "along the text.",
            figure=Figure(
                "Gates over time",
                self.figure(),
                f"{OF_ALL} Gates lie between 0 (closed) and 1 (open).",
                self.table(),
            ),
        )

    def parts(self) -> list[Part]:
        """All means, and the units of the first gate while it reads the first text."""
        means = zip(self.names, self.mean.mean(0), strict=True)
        said = ", ".join(f"{name} {value:.2f}" for name, value in means)
        steps = range(len(self.mean))
        gate, first = self.names[0], self.example[:, 0]
        units = records({"token": steps, "unit": range(first.shape[1])}, {gate: first})
        parts: list[Part] = [f"On average over tokens: {said}."]
        if "candidate" in self.names:
            drawn = self._curves([self.names.index("candidate")], "candidate")
            rows = [row for row in self.table() if row["gate"] == "candidate"]
            parts.append(Figure("Candidate over time", drawn, OF_ALL, rows))
        return [
            *parts,
            Figure(f"Units of the {gate} gate", self.units(gate, steps), "First text.", units),
        ]
