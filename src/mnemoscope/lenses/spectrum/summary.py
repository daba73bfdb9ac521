"""What a page shows of waves along positions, as data that goes to JSON and back. No torch.

Shapes: S sites, F frequencies, W windows along the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mnemoscope.lenses.heads.summary import Matrix, Vector, short, tuples

if TYPE_CHECKING:
    from mnemoscope.lenses.spectrum.result import SpectrumResult

FIELDS = ("power", "peak", "sharpness", "words_sharpness", "share")
# Dimensions of a heat map.
DIMENSIONS = 48
# Least share of the variance that positions explain where waves are said to be.
LEAST_SHARE = 0.01


@dataclass(frozen=True, kw_only=True)
class SpectrumBrief:
    """Spectra of means by position: what every checkpoint has.

    power, peak, sharpness   (S, F), (S,), (S,) of the means by position; sharpness is the power of
                             the strongest frequency over the mean power
    sharpness_null           (S,) the sharpest of ten shuffles of the positions
    words_sharpness          (S,) of what is left when the means are taken off
    share                    (S,) share of variance that positions explain
    """

    sites: tuple[str, ...]
    texts: int
    positions: int
    window: int
    frequencies: Vector
    power: Matrix
    peak: Vector
    sharpness: Vector
    sharpness_null: Vector
    words_sharpness: Vector
    share: Vector

    @property
    def with_waves(self) -> tuple[str, ...]:
        """Sites with waves: sharper than every shuffle and than words, and more than noise."""
        return tuple(
            site
            for s, site in enumerate(self.sites)
            if self.sharpness[s] > max(self.sharpness_null[s], self.words_sharpness[s])
            and self.share[s] > LEAST_SHARE
        )


@dataclass(frozen=True)
class Amplitude:
    """The dimensions with the highest peaks, and their amplitudes by frequency."""

    dimensions: tuple[int, ...]
    values: Matrix


@dataclass(frozen=True, kw_only=True)
class SpectrumSummary(SpectrumBrief):
    """All that a page shows of the spectra of one model.

    drift   (S, W) strongest frequency by window; ``centres`` (W,) are their middles
    """

    drift: Matrix
    centres: Vector
    amplitude: dict[str, Amplitude]


def brief(spectrum: SpectrumResult) -> dict[str, Any]:
    """The fields of `SpectrumBrief`."""
    return {
        "sites": spectrum.sites,
        "texts": spectrum.texts,
        "positions": spectrum.positions,
        "window": spectrum.window,
        "frequencies": tuples(spectrum.frequencies),
        "sharpness_null": tuples(spectrum.sharpness_null.max(1)),
        **{name: short(getattr(spectrum, name)) for name in FIELDS},
    }


def whole(spectrum: SpectrumResult) -> dict[str, Any]:
    """The fields of `SpectrumSummary`."""
    return {
        **brief(spectrum),
        "drift": short(spectrum.drift()),
        "centres": tuples(spectrum.centres),
        "amplitude": {site: _strongest(values) for site, values in spectrum.amplitude.items()},
    }


def summary(spectrum: SpectrumResult) -> SpectrumSummary:
    """All that a page shows of spectra."""
    return SpectrumSummary(**whole(spectrum))


def _strongest(amplitude: Any) -> Amplitude:
    order = np.argsort(-amplitude.max(1), kind="stable")[:DIMENSIONS]
    return Amplitude(tuples(order), short(amplitude[order]))
