"""What is seen of waves along positions, as plain values that JSON can hold and a page can draw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mnemoscope.lenses.heads.summary import short

if TYPE_CHECKING:
    from mnemoscope.lenses.spectrum.result import SpectrumResult

FIELDS = ("power", "words", "null", "peak", "sharpness", "words_sharpness", "share", "bands")
# Dimensions of a heat map.
DIMENSIONS = 48


def brief(spectrum: SpectrumResult) -> dict[str, Any]:
    """What is kept of every model in training."""
    return {
        "sites": list(spectrum.sites),
        "texts": spectrum.texts,
        "positions": spectrum.positions,
        "window": spectrum.window,
        "frequencies": spectrum.frequencies.tolist(),
        "sharpness_null": spectrum.sharpness_null.max(1).tolist(),
        **{name: short(getattr(spectrum, name)) for name in FIELDS},
    }


def summary(spectrum: SpectrumResult) -> dict[str, Any]:
    """All that a page shows."""
    return {
        **brief(spectrum),
        "drift": short(spectrum.drift()),
        "centres": spectrum.centres.tolist(),
        "amplitude": {site: _strongest(values) for site, values in spectrum.amplitude.items()},
    }


def _strongest(amplitude: Any) -> dict[str, Any]:
    order = np.argsort(-amplitude.max(1), kind="stable")[:DIMENSIONS]
    return {"dimensions": order.tolist(), "values": short(amplitude[order])}
