"""What is seen of heads, as plain values that JSON can hold and a page can draw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from mnemoscope.lenses.heads.result import HeadsResult

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
# Heads whose curves are shown.
SHOWN = 12
# Heads of which it makes sense to ask for a delay: keys are mostly the queries' waves, shifted.
COHERENT = 0.5


def brief(heads: HeadsResult) -> dict[str, Any]:
    """What is kept of every model in training."""
    found: dict[str, Any] = {
        "offsets": heads.offsets.tolist(),
        "agreement": list(heads.agreement("delay")),
        "coherent_agreement": list(heads.agreement("delay", COHERENT)),
        "lag_agreement": list(heads.agreement("lag")),
        "terms": {name: values.tolist() for name, values in heads.terms.items()},
    }
    found |= {name: short(getattr(heads, name)) for name in HEADS}
    if heads.rotary is not None:
        found["rotary"] = {
            "relative": short(heads.rotary.relative),
            "null": short(heads.rotary.relative_null),
            "periods": [p if np.isfinite(p) else None for p in heads.rotary.periods.tolist()],
            "share": short(heads.rotary.share),
        }
    return found


def summary(heads: HeadsResult) -> dict[str, Any]:
    """All that the page of one model shows of its heads."""
    return {
        **brief(heads),
        "shared": heads.shared,
        "without": heads.without,
        "paper": [
            {"layer": one.layer, "head": one.head, "shifts": one.shifts.tolist()}
            for one in heads.paper
        ],
        "gallery": _strongest(heads),
    }


def short(values: Any) -> Any:
    """Seven digits are enough for a page and halve the file."""
    return np.asarray(values, dtype=np.float32).astype(np.float64).round(7).tolist()


def _strongest(heads: HeadsResult) -> list[dict[str, Any]]:
    """Curves of the heads whose scores depend most on i − j."""
    if heads.components is None:
        return []
    parts = heads.components
    periods = parts.periods
    found = []
    for layer, head in heads.strongest(SHOWN):
        one: dict[str, Any] = {
            "layer": layer,
            "head": head,
            "left": short(parts.left[layer, head, :2]),
            "right": short(parts.right[layer, head, :2]),
            "values": short(parts.values[layer, head, :2]),
            "share": short(parts.share[layer, head, :2]),
            "periods": short(periods[:, layer, head, :2]),
        }
        if parts.table_left is not None and parts.table_right is not None:
            one["table_left"] = short(parts.table_left[layer, head, :2])
            one["table_right"] = short(parts.table_right[layer, head, :2])
        found.append(one)
    return found
