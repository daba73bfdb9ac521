"""What is seen of position waves, as plain values that JSON can hold and a page can draw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mnemoscope.lenses.heads import summary as of_heads
from mnemoscope.lenses.heads.summary import short
from mnemoscope.lenses.spectrum import summary as of_spectrum

if TYPE_CHECKING:
    from mnemoscope.lenses.heads.result import HeadsResult
    from mnemoscope.lenses.spectrum.result import SpectrumResult
    from mnemoscope.lenses.waves.result import WavesResult


def brief(spectrum: SpectrumResult, heads: HeadsResult) -> dict[str, Any]:
    """What is kept of every model in training."""
    return {**of_spectrum.brief(spectrum), **of_heads.brief(heads)}


def summary(result: WavesResult) -> dict[str, Any]:
    """All that the page of one model shows."""
    bands = result.bands
    return {
        "model": result.model,
        **of_spectrum.summary(result.spectrum),
        **of_heads.summary(result.heads),
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
