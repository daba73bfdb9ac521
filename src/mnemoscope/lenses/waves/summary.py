"""What is seen of position waves, as plain values that JSON can hold and a page can draw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mnemoscope.lenses.heads import summary as of_heads
from mnemoscope.lenses.heads.summary import short

if TYPE_CHECKING:
    from mnemoscope.lenses.heads.result import HeadsResult
    from mnemoscope.lenses.spectrum.result import SpectrumResult
    from mnemoscope.lenses.waves.result import WavesResult

SPECTRUM = ("power", "words", "null", "peak", "sharpness", "words_sharpness", "share", "bands")
# Dimensions of a heat map.
DIMENSIONS = 48


def brief(spectrum: SpectrumResult, heads: HeadsResult) -> dict[str, Any]:
    """What is kept of every model in training."""
    return {**_spectrum(spectrum), **of_heads.brief(heads)}


def _spectrum(spectrum: SpectrumResult) -> dict[str, Any]:
    return {
        "sites": list(spectrum.sites),
        "texts": spectrum.texts,
        "positions": spectrum.positions,
        "window": spectrum.window,
        "frequencies": spectrum.frequencies.tolist(),
        "sharpness_null": spectrum.sharpness_null.max(1).tolist(),
        **{name: short(getattr(spectrum, name)) for name in SPECTRUM},
    }


def summary(result: WavesResult) -> dict[str, Any]:
    """All that the page of one model shows."""
    spectrum, bands = result.spectrum, result.bands
    return {
        "model": result.model,
        **_spectrum(spectrum),
        **of_heads.summary(result.heads),
        "drift": short(spectrum.drift()),
        "centres": spectrum.centres.tolist(),
        "amplitude": {site: _strongest(values) for site, values in spectrum.amplitude.items()},
        "recovery": {n: short(v) for n, v in result.recovery.value.items()},
        "recovery_sites": list(result.recovery.sites),
        "recovery_null": result.recovery.null,
        "recovery_best": [result.recovery.best, result.recovery.directions],
        "unsettled": list(result.recovery.unsettled),
        "propagation": None if result.propagation is None else result.propagation.table(),
        "norms": result.norms,
        "filters": {
            "asked": bands.asked,
            "bands": list(bands.bands),
            "texts": bands.texts,
            "loss": bands.loss,
            "change": {mode: values.tolist() for mode, values in bands.change.items()},
            "error": {mode: values.tolist() for mode, values in bands.error.items()},
            "moved": {mode: values.tolist() for mode, values in bands.moved.items()},
        },
    }


def _strongest(amplitude: Any) -> dict[str, Any]:
    order = np.argsort(-amplitude.max(1), kind="stable")[:DIMENSIONS]
    return {"dimensions": order.tolist(), "values": short(amplitude[order])}
