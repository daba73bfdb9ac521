"""What the lenses on waves measured, as the data that a page is drawn from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mnemoscope.studies.waves.result import (
    Amplitude,
    BandFilters,
    HeadComponents,
    ModelWaves,
    PaperShift,
    RotaryShares,
    Survival,
)

if TYPE_CHECKING:
    from mnemoscope.lenses.heads.result import HeadsResult
    from mnemoscope.lenses.spectrum import SpectrumResult
    from mnemoscope.lenses.waves.bands import BandsResult
    from mnemoscope.lenses.waves.lens import WavesResult
    from mnemoscope.lenses.waves.propagation import PropagationResult

SPECTRUM = ("power", "peak", "sharpness", "words_sharpness", "share")
HEADS = (
    "relative",
    "relative_null",
    "position_relative",
    "delay",
    "lag",
    "coherence",
    "coherence_null",
    "favourite",
    "fit",
    "measured",
    "predicted",
    "flat",
)
# Heads whose components are shown, dimensions of a heat map.
SHOWN_HEADS, DIMENSIONS = 12, 48
# Heads of which it makes sense to ask for a delay: keys are mostly the queries' waves, shifted.
COHERENT = 0.5


def position_waves(spectrum: SpectrumResult, heads: HeadsResult) -> dict[str, Any]:
    """The fields of `PositionWaves`, to which a checkpoint and a finished model add their own."""
    rotary = heads.rotary
    return {
        "sites": spectrum.sites,
        "texts": spectrum.texts,
        "positions": spectrum.positions,
        "window": spectrum.window,
        "frequencies": _tuples(spectrum.frequencies),
        "sharpness_null": _tuples(spectrum.sharpness_null.max(1)),
        "offsets": _tuples(heads.offsets),
        "agreement": heads.agreement("delay"),
        "coherent_agreement": heads.agreement("delay", COHERENT),
        "lag_agreement": heads.agreement("lag"),
        "terms": _each(heads.terms),
        **{name: _short(getattr(spectrum, name)) for name in SPECTRUM},
        **{name: _short(getattr(heads, name)) for name in HEADS},
        "rotary": rotary
        and RotaryShares(
            relative=_short(rotary.relative),
            null=_short(rotary.relative_null),
            periods=tuple(p if np.isfinite(p) else None for p in rotary.periods.tolist()),
            share=_short(rotary.share),
        ),
    }


def summary(result: WavesResult) -> ModelWaves:
    """All that the page of one model shows."""
    heads, spectrum, recovery = result.heads, result.spectrum, result.recovery
    return ModelWaves(
        model=result.model,
        **position_waves(spectrum, heads),
        drift=_short(spectrum.drift()),
        centres=_tuples(spectrum.centres),
        amplitude={site: _strongest(values) for site, values in spectrum.amplitude.items()},
        recovery={method: _short(values) for method, values in recovery.value.items()},
        recovery_sites=recovery.sites,
        recovery_null=recovery.null,
        recovery_best=(recovery.best, recovery.directions),
        unsettled=recovery.unsettled,
        propagation=None if result.propagation is None else _survival(result.propagation),
        norms=result.norms,
        shared=heads.shared,
        without=heads.without,
        paper=tuple(PaperShift(one.layer, one.head, _tuples(one.shifts)) for one in heads.paper),
        components=_components(heads),
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


def _strongest(amplitude: Any) -> Amplitude:
    order = np.argsort(-amplitude.max(1), kind="stable")[:DIMENSIONS]
    return Amplitude(_tuples(order), _short(amplitude[order]))


def _components(heads: HeadsResult) -> tuple[HeadComponents, ...]:
    """Curves of the heads whose scores depend most on i − j."""
    if heads.components is None:
        return ()
    parts = heads.components
    periods = parts.periods()
    return tuple(
        HeadComponents(
            layer,
            head,
            left=_short(parts.left[layer, head, :2]),
            right=_short(parts.right[layer, head, :2]),
            periods=_short(periods[:, layer, head, :2]),
        )
        for layer, head in heads.strongest(SHOWN_HEADS)
    )


def _each(values: dict[str, Any]) -> dict[str, Any]:
    return {name: _tuples(one) for name, one in values.items()}


def _short(values: Any) -> Any:
    """Seven digits are enough for a page and halve the file."""
    return _tuples(np.asarray(values, dtype=np.float32).astype(np.float64).round(7))


def _tuples(values: Any) -> Any:
    """An array as nested tuples of numbers."""
    return _frozen(np.asarray(values).tolist())


def _frozen(values: Any) -> Any:
    return tuple(map(_frozen, values)) if isinstance(values, list) else values
