"""What a page shows of position waves, as data that goes to JSON and back. No torch.

Shapes: S sites, F frequencies, W windows along the text, L layers, B bands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mnemoscope.lenses.heads import summary as of_heads
from mnemoscope.lenses.heads.summary import (
    HeadsBrief,
    HeadsSummary,
    Matrix,
    Vector,
    short,
    tuples,
)

if TYPE_CHECKING:
    from mnemoscope.lenses.heads.result import HeadsResult
    from mnemoscope.lenses.spectrum import SpectrumResult
    from mnemoscope.lenses.waves.bands import BandsResult
    from mnemoscope.lenses.waves.lens import WavesResult
    from mnemoscope.lenses.waves.propagation import PropagationResult

SPECTRUM = ("power", "peak", "sharpness", "words_sharpness", "share")
# Dimensions of a heat map.
DIMENSIONS = 48
# Least share of the variance that positions explain where waves are said to be.
LEAST_SHARE = 0.01


@dataclass(frozen=True, kw_only=True)
class PositionWaves(HeadsBrief):
    """Spectra of means by position, and heads: what every checkpoint has.

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


@dataclass(frozen=True)
class Survival:
    """How far the position embeddings explain the means by position at one site."""

    site: str
    fit: float
    shuffled: float
    line: float
    share: float


@dataclass(frozen=True)
class BandFilters:
    """Loss added (B,) by filter when a band is taken out, two errors of it, attention moved (B, L).

    ``asked`` says what the loss is of; it is empty for a model that has none.
    """

    asked: str
    bands: tuple[str, ...]
    texts: int
    loss: float
    change: dict[str, Vector]
    error: dict[str, Vector]
    moved: dict[str, Matrix]


@dataclass(frozen=True, kw_only=True)
class WavesSummary(PositionWaves, HeadsSummary):
    """All that the page of one model shows.

    drift           (S, W) strongest frequency by window; ``centres`` (W,) are their middles
    recovery        by method, (L,) share of variance by position in the best few directions
    recovery_best   how many directions those are, of how many
    propagation     site by site; None for a model without absolute positions
    norms           by path, how much the std that a norm divides by varies over tokens
    """

    model: str
    drift: Matrix
    centres: Vector
    amplitude: dict[str, Amplitude]
    recovery: dict[str, Vector]
    recovery_sites: tuple[str, ...]
    recovery_null: float
    recovery_best: tuple[int, int]
    unsettled: tuple[str, ...]
    propagation: tuple[Survival, ...] | None
    norms: dict[str, float]
    filters: BandFilters


def brief(spectrum: SpectrumResult, heads: HeadsResult) -> dict[str, Any]:
    """The fields of `PositionWaves`."""
    return {**_spectrum(spectrum), **of_heads.brief(heads)}


def summary(result: WavesResult) -> WavesSummary:
    """All that the page of one model shows."""
    spectrum, recovery = result.spectrum, result.recovery
    return WavesSummary(
        model=result.model,
        **_spectrum(spectrum),
        **of_heads.whole(result.heads),
        drift=short(spectrum.drift()),
        centres=tuples(spectrum.centres),
        amplitude={site: _strongest(values) for site, values in spectrum.amplitude.items()},
        recovery={method: short(values) for method, values in recovery.value.items()},
        recovery_sites=recovery.sites,
        recovery_null=recovery.null,
        recovery_best=(recovery.best, recovery.directions),
        unsettled=recovery.unsettled,
        propagation=None if result.propagation is None else _survival(result.propagation),
        norms=result.norms,
        filters=_filters(result.bands),
    )


def _spectrum(spectrum: SpectrumResult) -> dict[str, Any]:
    return {
        "sites": spectrum.sites,
        "texts": spectrum.texts,
        "positions": spectrum.positions,
        "window": spectrum.window,
        "frequencies": tuples(spectrum.frequencies),
        "sharpness_null": tuples(spectrum.sharpness_null.max(1)),
        **{name: short(getattr(spectrum, name)) for name in SPECTRUM},
    }


def _survival(found: PropagationResult) -> tuple[Survival, ...]:
    numbers = np.stack((found.fit, found.shuffled, found.line, found.energy), 1)
    return tuple(
        Survival(site, *row) for site, row in zip(found.sites, numbers.tolist(), strict=True)
    )


def _filters(bands: BandsResult) -> BandFilters:
    return BandFilters(
        asked=bands.asked,
        bands=bands.bands,
        texts=bands.texts,
        loss=bands.loss,
        change=_each(bands.change),
        error=_each(bands.error),
        moved=_each(bands.moved),
    )


def _strongest(amplitude: Any) -> Amplitude:
    order = np.argsort(-amplitude.max(1), kind="stable")[:DIMENSIONS]
    return Amplitude(tuples(order), short(amplitude[order]))


def _each(values: dict[str, Any]) -> dict[str, Any]:
    return {name: tuples(one) for name, one in values.items()}
