"""What the lenses on waves saw, as plain values that JSON can hold and a page can draw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from mnemoscope.lenses.heads.result import HeadsResult
    from mnemoscope.lenses.spectrum import SpectrumResult
    from mnemoscope.lenses.waves.lens import WavesResult

SPECTRUM = ("power", "words", "null", "peak", "sharpness", "words_sharpness", "share", "bands")
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
# Heads whose curves are shown, dimensions of a heat map.
GALLERY, DIMENSIONS = 12, 48
# Heads of which it makes sense to ask for a delay: keys are mostly the queries' waves, shifted.
COHERENT = 0.5


def brief(spectrum: SpectrumResult, heads: HeadsResult) -> dict[str, Any]:
    """What is kept of every look at a model in training."""
    found: dict[str, Any] = {
        "sites": list(spectrum.sites),
        "texts": spectrum.texts,
        "positions": spectrum.positions,
        "window": spectrum.window,
        "frequencies": spectrum.frequencies.tolist(),
        "sharpness_null": spectrum.sharpness_null.max(1).tolist(),
        "offsets": heads.offsets.tolist(),
        "agreement": list(heads.agreement("delay")),
        "coherent_agreement": list(heads.agreement("delay", COHERENT)),
        "lag_agreement": list(heads.agreement("lag")),
        "terms": {name: values.tolist() for name, values in heads.terms.items()},
    }
    found |= {name: _short(getattr(spectrum, name)) for name in SPECTRUM}
    found |= {name: _short(getattr(heads, name)) for name in HEADS}
    if heads.rotary is not None:
        found["rotary"] = {
            "relative": _short(heads.rotary.relative),
            "null": _short(heads.rotary.relative_null),
            "periods": [p if np.isfinite(p) else None for p in heads.rotary.periods.tolist()],
            "share": _short(heads.rotary.share),
        }
    return found


def summary(result: WavesResult) -> dict[str, Any]:
    """All that the page of one model shows."""
    heads, spectrum = result.heads, result.spectrum
    found = {
        "model": result.model,
        **brief(spectrum, heads),
        "drift": _short(spectrum.drift()),
        "centres": spectrum.centres.tolist(),
        "amplitude": {site: _strongest(values) for site, values in spectrum.amplitude.items()},
        "recovery": {n: _short(v) for n, v in result.recovery.value.items()},
        "recovery_sites": list(result.recovery.sites),
        "recovery_null": result.recovery.null,
        "recovery_best": [result.recovery.best, result.recovery.directions],
        "unsettled": list(result.recovery.unsettled),
        "propagation": None if result.propagation is None else result.propagation.table(),
        "norms": result.norms,
        "shared": heads.shared,
        "without": heads.without,
        "paper": [
            {"layer": one.layer, "head": one.head, "shifts": one.shifts.tolist()}
            for one in heads.paper
        ],
        "gallery": _gallery(heads),
    }
    bands = result.bands
    found["filters"] = {
        "asked": bands.asked,
        "bands": list(bands.bands),
        "texts": bands.texts,
        "loss": bands.loss,
        "change": {mode: values.tolist() for mode, values in bands.change.items()},
        "error": {mode: values.tolist() for mode, values in bands.error.items()},
        "moved": {mode: values.tolist() for mode, values in bands.moved.items()},
    }
    return found


def _short(values: Any) -> Any:
    """Seven digits are enough for a page and halve the file."""
    return np.asarray(values, dtype=np.float32).astype(np.float64).round(7).tolist()


def _strongest(amplitude: Any) -> dict[str, Any]:
    order = np.argsort(-amplitude.max(1), kind="stable")[:DIMENSIONS]
    return {"dimensions": order.tolist(), "values": _short(amplitude[order])}


def _gallery(heads: HeadsResult) -> list[dict[str, Any]]:
    """Curves of the heads whose scores depend most on i − j."""
    if heads.components is None:
        return []
    parts = heads.components
    periods = parts.periods()
    found = []
    for layer, head in heads.strongest(GALLERY):
        one: dict[str, Any] = {
            "layer": layer,
            "head": head,
            "left": _short(parts.left[layer, head, :2]),
            "right": _short(parts.right[layer, head, :2]),
            "values": _short(parts.values[layer, head, :2]),
            "share": _short(parts.share[layer, head, :2]),
            "periods": _short(periods[:, layer, head, :2]),
        }
        if parts.table_left is not None and parts.table_right is not None:
            one["table_left"] = _short(parts.table_left[layer, head, :2])
            one["table_right"] = _short(parts.table_right[layer, head, :2])
        found.append(one)
    return found
