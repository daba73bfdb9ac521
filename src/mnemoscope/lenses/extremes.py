"""The largest and the smallest of several estimates, and whether they can be told apart. No torch.

What a page leads with is said through this, so that nothing inside the noise is called a finding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.report.claims import Claim, Gate, claims_table
from mnemoscope.report.document import Table

# Less is nothing but rounding.
SMALLEST = 1e-6


def band(value: Floats, error: Floats) -> tuple[Floats, Floats, Floats]:
    """A curve between two standard errors below it and two above."""
    return value, value - 2 * error, value + 2 * error


def with_band(value: float, low: float, high: float) -> str:
    """``0.310 (0.290 to 0.331)``, with three digits of the value; alone where it has no band."""
    small = abs(value) < SMALLEST
    digits = 2 if small else max(0, 2 - math.floor(math.log10(abs(value))))
    # Rounded first: what is next to nothing shall not have a sign.
    said = [f"{round(one, digits) + 0.0:.{digits}f}" for one in (value, low, high)]
    return f"{said[0]} ({said[1]} to {said[2]})" if math.isfinite(low + high) else said[0]


@dataclass(frozen=True, eq=False)
class Extremes:
    """Estimates by name and the ends of their bands, (n,); NaN where one could not be had.

    least   by how much two must differ, beyond their bands, to be told apart
    """

    names: Sequence[str]
    values: Floats
    low: Floats
    high: Floats
    least: float = 0.0

    @property
    def ends(self) -> tuple[int, int]:
        """Which is the largest, and which the smallest."""
        return int(np.nanargmax(self.values)), int(np.nanargmin(self.values))

    @property
    def largest(self) -> str:
        """The name of the largest."""
        return self.names[self.ends[0]]

    @property
    def smallest(self) -> str:
        """The name of the smallest."""
        return self.names[self.ends[1]]

    def claim(
        self, text: str, unit: str = "", gates: Sequence[Gate] = (), ceiling: str = ""
    ) -> Claim:
        """That they differ, as ``text`` says it; the noise of their difference is taken off."""
        most, least = self.ends
        down, up = self.values[most] - self.low[most], self.high[least] - self.values[least]
        apart = float(self.values[most] - self.values[least] - np.hypot(down, up))
        unknown = "" if math.isfinite(apart) else "their errors could not be measured"
        return Claim(text, [apart], self.least, unit, gates, ceiling or unknown)

    def sentence(self, what: str, things: str, where: str, seen: bool) -> str:
        """Where ``what`` is largest and smallest, or that ``things`` are not distinguishable."""
        most, least = (
            with_band(float(self.values[at]), float(self.low[at]), float(self.high[at]))
            for at in self.ends
        )
        said = f"largest {where} {self.largest}, {most}, "
        said += f"and smallest {where} {self.smallest}, {least}"
        if self.ends[0] == self.ends[1]:
            said = f"{most} {where} {self.largest if len(self.names) == 1 else 'all of them'}"
        if seen or len(self.names) == 1:
            return f"{what[0].upper()}{what[1:]} is {said}."
        return f"{things} are not distinguishable by {what}: it is {said}."


def differences(claims: Sequence[Claim]) -> Table:
    """What the page of a lens claims."""
    return claims_table(
        "Which differences count",
        claims,
        "Seen: at least the effect that counts, with the noise taken off. Not judged: there were "
        "too few samples, or nothing larger could have been measured.",
    )
