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
from mnemoscope.lenses.spectrum.page import by_frequency, spectra_section, wave_sentences
from mnemoscope.lenses.spectrum.summary import SpectrumBrief, SpectrumSummary, whole
from mnemoscope.plots.figure import Plot, Series, lines
from mnemoscope.report.document import Figure, Section, finding


class SpectrumOptions(SiteOptions):
    """How finely waves are told apart."""

    window: int = Field(64, ge=4, le=MOST, description="positions of one transform")
    frequencies: int | None = Field(
        None, ge=1, le=MOST, description="at least so many; by default those of the window"
    )
    shuffles: int = Field(10, ge=1, le=1000, description="shuffles of the positions, the null")


@dataclass(frozen=True, eq=False)
class SpectrumResult(SpectrumBrief, Result):
    """Spectra of S sites over F frequencies, in cycles per token.

    amplitude   (D, F) by site: of the mean over texts, column by column, root mean square over
                windows; a sine of amplitude a shows as a
    power       (S, F) summed over columns, the product of two halves of the texts: what words
                leave in a mean cancels, so it can fall below zero
    words       (S, F) power of single texts less that of the means: the word control
    null        (S, F) power with positions shuffled
    windows     (S, W, F) power by window, and where windows stand in ``centres``
    bands       (S, bands) shares of the power by period in tokens, named in ``band_names``
    """

    amplitude: dict[str, Floats]
    power: Floats
    words: Floats
    null: Floats
    windows: Floats
    centres: Floats
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
        shares = self._shares(site or self.sites[int(np.nanargmax(self.sharpness))])
        series = [Series(name, self.frequencies, power) for name, power in shares.items()]
        return lines(series, "cycles per token", "share of power")

    def _shares(self, site: str) -> dict[str, Floats]:
        """Power of one site and of its controls, each as a share of its sum, (F,)."""
        number = self._number(site)
        named = {"positions": self.power, "words": self.words, "shuffled positions": self.null}
        powers = {name: np.maximum(values[number], 0) for name, values in named.items()}
        return {name: power / max(power.sum(), 1e-300) for name, power in powers.items()}

    def heatmap(self, site: str, most: int = 64) -> Plot:
        """Dimension × frequency of one site, the strongest dimensions first."""
        self._number(site)
        values = self.amplitude[site]
        order = np.argsort(-values.max(1), kind="stable")[:most]
        return by_frequency(
            values[order], self.frequencies, order.tolist(), "dimension", "amplitude"
        )

    def _number(self, site: str) -> int:
        if site not in self.sites:
            raise UserError(f"nothing was seen at {site!r}; {suggestion(site, self.sites)}")
        return self.sites.index(site)

    def sections(self) -> list[Section]:
        """Where waves stand out, with the spectrum of that site; then all sites."""
        seen, site = SpectrumSummary(**whole(self)), self.strongest_site
        shown = Figure(
            f"Spectrum at {site}",
            self.figure(site),
            f"Power at every frequency as a share of all, of the means over {self.texts} texts by "
            "position, of what words bring, and with positions shuffled.",
            records({"frequency": self.frequencies.tolist()}, self._shares(site)),
        )
        return [finding(*wave_sentences(seen), figure=shown), spectra_section(seen)]
