"""What is seen of position waves: options and results of the lens.

Shapes: S sites, L layers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from pydantic import Field

from mnemoscope.core.arrays import Floats
from mnemoscope.lenses.heads.result import HeadsResult, PositionOptions
from mnemoscope.lenses.lens import MOST, Records, Result, by_site, records
from mnemoscope.lenses.spectrum.result import SpectrumResult
from mnemoscope.lenses.waves import page
from mnemoscope.lenses.waves.summary import summary
from mnemoscope.plots.figure import Plot, Reference, Series, bars
from mnemoscope.report.document import Section

MODES = {
    "stop": "the band taken out",
    "pass": "nothing but the band left of the positions",
    "shuffled": "control: the band's values taken off at other positions",
}


class WavesOptions(PositionOptions):
    """How finely waves are told apart, and what is tried on them."""

    filtered: int = Field(10, ge=2, le=MOST, description="texts read once for each filter")


@dataclass(frozen=True, eq=False)
class RecoveryResult:
    """By method and site: mean share of variance that positions explain, of the best directions.

    value       (S,) by method, from 0 (nothing but words) to 1 (nothing but positions)
    null        the same for PCA with positions shuffled
    unsettled   sites where FastICA did not converge
    """

    sites: tuple[str, ...]
    value: dict[str, Floats]
    null: float
    directions: int
    best: int
    unsettled: tuple[str, ...]

    def table(self) -> Records:
        """One row per method and site."""
        return records(
            {"method": list(self.value), "site": self.sites},
            {"value": list(self.value.values()), "null": self.null},
        )

    def figure(self) -> Plot:
        """One line per method, over sites."""
        return by_site(
            {method: (values,) for method, values in self.value.items()},
            self.sites,
            "site",
            "share of variance by position",
            references=[Reference(self.null, "null: positions shuffled")],
            y_range=(-0.02, 1.02),
        )


@dataclass(frozen=True, eq=False)
class PropagationResult:
    """At S sites, all (S,).

    fit        R² of S P L for the means by position, mean vector taken off
    shuffled   the same with the rows of P shuffled: as many free numbers, no position
    line       R² of a straight line in the position, column by column: the plain control
    energy     share of all variance that positions explain
    """

    sites: tuple[str, ...]
    fit: Floats
    shuffled: Floats
    line: Floats
    energy: Floats

    def table(self) -> Records:
        """One row per site."""
        return records(
            {"site": self.sites},
            {
                "S P L": self.fit,
                "rows shuffled": self.shuffled,
                "straight line": self.line,
                "share of variance": self.energy,
            },
        )

    def figure(self) -> Plot:
        """All four over sites."""
        named = {
            "S P L": (self.fit,),
            "rows of P shuffled": (self.shuffled,),
            "straight line in position": (self.line,),
            "share of all variance": (self.energy,),
        }
        return by_site(named, self.sites, "site", "R², or share")


@dataclass(frozen=True, eq=False)
class BandsResult:
    """What filters did, by mode; bands as in ``bands``.

    loss        what the model loses as it is, nats; NaN when it has no loss
    change      (bands,) how much more it loses, and ``error``, two standard errors over texts
    moved       (bands, L) share of attention that goes elsewhere in a layer for the same input
    """

    asked: str
    bands: tuple[str, ...]
    texts: int
    loss: float
    change: dict[str, Floats]
    error: dict[str, Floats]
    moved: dict[str, Floats]
    meaning: dict[str, str] = field(default_factory=lambda: dict(MODES))

    def table(self) -> Records:
        """One row per mode and band."""
        moved = np.array(list(self.moved.values()))
        return records(
            {"filter": list(self.moved), "period": self.bands},
            {
                "loss added": [self.change[mode] for mode in self.moved],
                "error": [self.error[mode] for mode in self.moved],
                **{f"attention moved, layer {n}": moved[..., n] for n in range(moved.shape[2])},
            },
        )

    def figure(self) -> Plot:
        """Loss added by band and mode; without a loss, attention moved."""
        if np.isnan(self.loss):
            series = [Series(m, self.bands, moved.mean(1)) for m, moved in self.moved.items()]
            return bars(series, "period in tokens", "share of attention moved")
        series = [
            Series(m, self.bands, c, c - self.error[m], c + self.error[m])
            for m, c in self.change.items()
        ]
        return bars(
            series, "period in tokens", f"loss added ({self.asked}, nats)",
            references=[Reference(0.0, "the model as it is")],
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class WavesResult(Result):
    """What was seen. ``propagation`` is None for a model without absolute positions.

    norms   by path: how much the std that a norm divides by varies over tokens, std / mean
    """

    model: str
    spectrum: SpectrumResult
    heads: HeadsResult
    recovery: RecoveryResult
    propagation: PropagationResult | None
    norms: dict[str, float]
    bands: BandsResult

    def figure(self) -> Plot:
        """Share of the scores that depends on i − j, layer × head."""
        return self.heads.figure()

    def table(self) -> Records:
        """One row per head."""
        return self.heads.table()

    def sections(self) -> list[Section]:
        """Spectra, heads, directions, survival, filters."""
        return page.sections(summary(self))
