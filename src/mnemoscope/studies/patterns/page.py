"""The page of the study `patterns`: every figure and every sentence is computed from its result."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mnemoscope.lenses.attention_maps.result import AttentionMapsResult
from mnemoscope.plots.figure import Reference
from mnemoscope.plots.images import slider, tiles
from mnemoscope.report.document import Figure, Section
from mnemoscope.studies.contest_page import (
    costs,
    curves,
    differences,
    distances,
    hops_section,
    order,
    rates,
    watch,
)
from mnemoscope.studies.sentences import FEWER

# Tokens of the map that is drawn: more would only make its grid too fine to see.
DRAWN = 64


def tell(result: dict[str, Any], runs: Path, stride: int, summaries: int) -> Sequence[Section]:
    """Build the sections of the page."""
    seen = watch(result, runs)
    return [
        _quality(result),
        _looks(seen),
        hops_section(stride, summaries, rows=3),
        costs(result, "byte"),
    ]


def _quality(result: dict[str, Any]) -> Section:
    first = next(iter(result["models"]))
    counted = [Reference(bits, name) for name, bits in result["counted"].items()]
    told = [
        f"Held-out bits per byte, best first: {order(result)}. {FEWER}",
        "; ".join(differences(result, first)) + "." if len(result["models"]) > 1 else "",
        rates(result),
    ]
    return Section(
        "What was seen",
        [
            *(text for text in told if text),
            curves(
                result,
                "byte",
                counted,
                "Dashed: models that only count bytes, or bytes after one other byte.",
            ),
        ],
    )


def _looks(seen: dict[str, AttentionMapsResult]) -> Section:
    pages, table = {}, []
    for layer in range(len(next(iter(seen.values())).patterns)):
        maps = {name: one.weights[layer, :DRAWN, :DRAWN] for name, one in seen.items()}
        past = np.tri(len(next(iter(maps.values()))), dtype=np.bool_)
        # Weights fall off steeply: their root shows the faint ones too.
        pictures = [np.where(past, np.sqrt(weights), np.nan) for weights in maps.values()]
        pages[str(layer + 1)] = tiles([pictures], [""], list(maps), "√weight")
        table += [
            {"model": name, "layer": layer + 1, "looking": i, "looked at": j, "weight": weight}
            for name, weights in maps.items()
            for (i, j), weight in np.ndenumerate(weights)
            if weight > 0
        ]
    return Section(
        "Where the layers look",
        [
            f"Who looks (down) at whom (across) among the first {len(past)} bytes of a passage, "
            "averaged over heads and held-out passages. Move the slider through the depth.",
            Figure(
                "Bytes looked at by depth",
                slider(pages, "layer"),
                "First seed of each model. Shades are roots of weights, so that faint looks show.",
                table,
            ),
            *distances(seen, "bytes"),
        ],
    )
