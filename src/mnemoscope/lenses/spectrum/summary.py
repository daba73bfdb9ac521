"""What a page shows of waves along positions, as data that goes to JSON and back. No torch.

Shapes: S sites, F frequencies, W windows along the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.lenses.heads.summary import DRAWN, rounded, taken

if TYPE_CHECKING:
    from mnemoscope.lenses.spectrum.result import SpectrumResult

# Dimensions of a heat map.
DIMENSIONS = 48
# Least share of the variance that positions explain where waves are said to be.
LEAST_SHARE = 0.01
# Least ratio of sharpness to that of the sharper control that counts as waves.
LEAST_STANDING_OUT = 1.2
RATIO = "times the sharper control"


@dataclass(frozen=True, eq=False, kw_only=True)
class SpectrumBrief:
    """Spectra of means by position: what every checkpoint has.

    peak, sharpness    (S,) the strongest frequency of the means by position, in cycles per token,
                       and how many times the mean power it is
    sharpness_null     (S,) the same of the sharpest shuffle of the positions, or (S, shuffles)
    words_sharpness    (S,) the same for the words
    share              (S,) share of all variance that positions explain: without it a peak is noise
    """

    sites: tuple[str, ...]
    texts: int
    positions: int
    window: int
    frequencies: Floats
    peak: Floats
    sharpness: Floats
    sharpness_null: Floats
    words_sharpness: Floats
    share: Floats

    def standing_out(self, site: str) -> float:
        """How many times sharper the waves of a site are than the sharper of its two controls.

        None are there, 0, where positions explain hardly any of the variance.
        """
        s = self.sites.index(site)
        if self.share[s] <= LEAST_SHARE:
            return 0.0
        control = max(np.max(self.sharpness_null[s]), self.words_sharpness[s])
        return float(self.sharpness[s] / control)

    @property
    def strongest_site(self) -> str:
        """Where waves stand out most; where none do, the sharpest."""
        sharpest = dict(zip(self.sites, self.sharpness, strict=True))
        return max(self.sites, key=lambda site: (self.standing_out(site), sharpest[site]))

    @property
    def with_waves(self) -> tuple[str, ...]:
        """Sites with waves: sharper than every shuffle and than words, and more than noise."""
        return tuple(site for site in self.sites if self.standing_out(site) > 1)


@dataclass(frozen=True, eq=False)
class Amplitude:
    """The dimensions with the highest peaks, and their amplitudes by frequency."""

    dimensions: tuple[int, ...]
    values: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class SpectrumSummary(SpectrumBrief):
    """All that a page shows of the spectra of one model.

    power   (S, F) of the means by position
    drift   (S, W) strongest frequency by window; ``centres`` (W,) are their middles
    """

    power: Floats
    drift: Floats
    centres: Floats
    amplitude: dict[str, Amplitude]


def brief(spectrum: SpectrumResult) -> dict[str, Any]:
    """The fields of `SpectrumBrief`."""
    highest = rounded(spectrum.sharpness_null.max(1))
    given = {"frequencies": spectrum.frequencies, "sharpness_null": highest}
    return taken(SpectrumBrief, spectrum, **given)


def whole(spectrum: SpectrumResult) -> dict[str, Any]:
    """The fields of `SpectrumSummary`."""
    return taken(
        SpectrumSummary,
        spectrum,
        **brief(spectrum),
        drift=rounded(spectrum.drift()),
        centres=spectrum.centres,
        amplitude={site: _strongest(values) for site, values in spectrum.amplitude.items()},
    )


def _strongest(amplitude: Floats) -> Amplitude:
    order = np.argsort(-amplitude.max(1), kind="stable")[:DIMENSIONS]
    return Amplitude(tuple(order.tolist()), rounded(amplitude[order], DRAWN))
