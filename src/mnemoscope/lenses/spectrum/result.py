"""Waves along positions at every site: options, result and page of the lens.

Shapes: T positions, D width of a site, F frequencies, W windows, S sites.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pydantic import Field

from mnemoscope.core.arrays import Floats
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.lenses.lens import MOST, Records, Result, SiteOptions, records
from mnemoscope.lenses.positions.frequencies import band_names, peak
from mnemoscope.lenses.spectrum.page import spectra_section
from mnemoscope.lenses.spectrum.summary import summary
from mnemoscope.plots.figure import Plot, Series, heatmap, lines
from mnemoscope.report.document import Section


class SpectrumOptions(SiteOptions):
    """How finely waves are told apart."""

    window: int = Field(64, ge=4, le=MOST, description="positions of one transform")
    frequencies: int | None = Field(
        None, ge=1, le=MOST, description="at least so many; by default those of the window"
    )
    shuffles: int = Field(10, ge=1, le=1000, description="shuffles of the positions, the null")


@dataclass(frozen=True, eq=False)
class SpectrumResult(Result):
    """Spectra of S sites over F frequencies, in cycles per token.

    amplitude   (D, F) by site: of the mean over texts, column by column, root mean square over
                windows; a sine of amplitude a shows as a
    power       (S, F) summed over columns, the product of two halves of the texts: what words
                leave in a mean cancels, so it can fall below zero
    words       (S, F) power of single texts less that of the means: the word control
    null        (S, F) power with positions shuffled
    windows     (S, W, F) power by window, and where windows stand in ``centres``
    peak, sharpness       (S,) the strongest frequency, and how many times the mean power it is
    sharpness_null        (S, shuffles) the same with positions shuffled
    words_sharpness       (S,) the same for the words
    share       (S,) share of all variance that positions explain: without it a peak is noise
    bands       (S, bands) shares of the power by period in tokens, named in ``band_names``
    """

    sites: tuple[str, ...]
    texts: int
    positions: int
    window: int
    frequencies: Floats
    amplitude: dict[str, Floats]
    power: Floats
    words: Floats
    null: Floats
    windows: Floats
    centres: Floats
    peak: Floats
    sharpness: Floats
    sharpness_null: Floats
    words_sharpness: Floats
    share: Floats
    bands: Floats

    @property
    def band_names(self) -> list[str]:
        """Periods in tokens."""
        return band_names()

    def drift(self) -> Floats:
        """The strongest frequency in every window, (S, W): it need not stay the same."""
        return np.array([[peak(w, self.frequencies)[0] for w in one] for one in self.windows])

    def table(self) -> Records:
        """One row per site."""
        return records(
            {"site": self.sites},
            {
                "peak": self.peak,
                "period": 1 / self.peak,
                "sharpness": self.sharpness,
                "shuffled": self.sharpness_null.mean(1),
                "words": self.words_sharpness,
                "share of variance": self.share,
                **{f"period {n}": self.bands[:, b] for b, n in enumerate(self.band_names)},
                "texts": self.texts,
            },
        )

    def figure(self, site: str | None = None) -> Plot:
        """Power of one site, by default the sharpest, beside words and shuffled positions.

        Each as a share of its sum.
        """
        site = site or self.sites[int(np.nanargmax(self.sharpness))]
        number = self._number(site)
        named = {"positions": self.power, "words": self.words, "shuffled positions": self.null}
        series = []
        for name, values in named.items():
            power = np.maximum(values[number], 0)
            series.append(Series(name, self.frequencies, power / max(power.sum(), 1e-300)))
        return lines(series, "cycles per token", "share of power")

    def heatmap(self, site: str, most: int = 64) -> Plot:
        """Dimension × frequency of one site, the strongest dimensions first."""
        self._number(site)
        values = self.amplitude[site]
        order = np.argsort(-values.max(1), kind="stable")[:most]
        names = [f"{one:.3f}" for one in self.frequencies]
        return heatmap(
            values[order], names, order.tolist(), "cycles per token", "dimension", "amplitude"
        )

    def _number(self, site: str) -> int:
        if site not in self.sites:
            raise UserError(f"nothing was seen at {site!r}; {suggestion(site, self.sites)}")
        return self.sites.index(site)

    def sections(self) -> list[Section]:
        """One section."""
        return [spectra_section(summary(self), "")]
