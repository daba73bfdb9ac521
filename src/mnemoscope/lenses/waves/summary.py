"""What a page shows of position waves, as data that goes to JSON and back. No torch.

Shapes: L layers, B bands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mnemoscope.lenses.heads import summary as of_heads
from mnemoscope.lenses.heads.summary import HeadsBrief, HeadsSummary, Matrix, Vector, short, tuples
from mnemoscope.lenses.spectrum import summary as of_spectrum
from mnemoscope.lenses.spectrum.summary import SpectrumBrief, SpectrumSummary

if TYPE_CHECKING:
    from mnemoscope.lenses.heads.result import HeadsResult
    from mnemoscope.lenses.spectrum.result import SpectrumResult
    from mnemoscope.lenses.waves.result import BandsResult, PropagationResult, WavesResult


@dataclass(frozen=True, kw_only=True)
class PositionWaves(SpectrumBrief, HeadsBrief):
    """Spectra of means by position, and heads: what every checkpoint has."""


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
class WavesSummary(PositionWaves, SpectrumSummary, HeadsSummary):
    """All that the page of one model shows.

    recovery        by method, (L,) share of variance by position in the best few directions
    recovery_best   how many directions those are, of how many
    propagation     site by site; None for a model without absolute positions
    norms           by path, how much the std that a norm divides by varies over tokens
    """

    model: str
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
    return {**of_spectrum.brief(spectrum), **of_heads.brief(heads)}


def summary(result: WavesResult) -> WavesSummary:
    """All that the page of one model shows."""
    recovery = result.recovery
    return WavesSummary(
        model=result.model,
        **of_spectrum.whole(result.spectrum),
        **of_heads.whole(result.heads),
        recovery={method: short(values) for method, values in recovery.value.items()},
        recovery_sites=recovery.sites,
        recovery_null=recovery.null,
        recovery_best=(recovery.best, recovery.directions),
        unsettled=recovery.unsettled,
        propagation=None if result.propagation is None else _survival(result.propagation),
        norms=result.norms,
        filters=_filters(result.bands),
    )


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


def _each(values: dict[str, Any]) -> dict[str, Any]:
    return {name: tuples(one) for name, one in values.items()}
