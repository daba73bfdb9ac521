"""What is seen of position waves: options and results of the lens.

Shapes: S sites, L layers.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from mnemoscope.core.arrays import Floats
from mnemoscope.lenses.heads.result import HeadsResult, PositionOptions
from mnemoscope.lenses.lens import MOST, Records, Result, by_site, records
from mnemoscope.lenses.spectrum.result import SpectrumResult
from mnemoscope.lenses.waves import page
from mnemoscope.lenses.waves.summary import BandFilters, HeadColumns, NormFit, WaveShift, summary
from mnemoscope.plots.figure import Plot
from mnemoscope.report.document import Section


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
        return page.recovered(self.value, self.null, self.sites, "site")


@dataclass(frozen=True, eq=False)
class PropagationResult:
    """At S sites, all (S,).

    fit        R² of S P L for the means by position, mean vector taken off, S and L free
    shuffled   the same with the rows of P shuffled: as many free numbers, no position
    line       R² of a straight line in the position, column by column: the plain control
    energy     share of all variance that positions explain
    norms      R² of S P L with S and L of the norms on the way, nothing fitted
    kept       how much of that is in the means: 1 all of it, 0 nothing, whatever else is there
    whole      share of the waves' energy that S has left in their shape, text by text
    bands      (S, bands) ``kept`` by period in tokens
    """

    sites: tuple[str, ...]
    fit: Floats
    shuffled: Floats
    line: Floats
    energy: Floats
    norms: Floats | None = None
    kept: Floats | None = None
    whole: Floats | None = None
    bands: Floats | None = None

    def table(self) -> Records:
        """One row per site."""
        return records({"site": self.sites}, self._curves())

    def _curves(self) -> dict[str, Floats]:
        """What older results do not have is left out."""
        named = {
            "S P L": self.fit,
            "rows shuffled": self.shuffled,
            "straight line": self.line,
            "share of variance": self.energy,
            "norms alone": self.norms,
            "kept": self.kept,
            "whole after S": self.whole,
        }
        return {name: values for name, values in named.items() if values is not None}

    def figure(self) -> Plot:
        """All over sites."""
        curves = {name: (values,) for name, values in self._curves().items()}
        return by_site(curves, self.sites, "site", "R², or share")


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
    bands: BandFilters
    norm_fits: tuple[NormFit, ...] = ()
    shift: WaveShift | None = None
    columns: tuple[HeadColumns, ...] = ()

    def figure(self) -> Plot:
        """Share of the scores that depends on i − j, layer × head."""
        return self.heads.figure()

    def table(self) -> Records:
        """One row per head."""
        return self.heads.table()

    def sections(self) -> list[Section]:
        """The finding, then spectra, heads, directions, survival, filters."""
        return page.page(summary(self))
