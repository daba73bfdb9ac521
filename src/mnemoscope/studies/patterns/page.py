"""The page of the study `patterns`: every figure and every sentence is computed from its result."""

from __future__ import annotations

import numpy as np

from mnemoscope.plots.figure import Reference
from mnemoscope.plots.images import slider, tiles
from mnemoscope.report.document import Cell, Figure, Section
from mnemoscope.studies.contest.page import curves, distances, hops_section, sections
from mnemoscope.studies.contest.result import ContestResult
from mnemoscope.studies.patterns.result import PatternsResult


def page(result: PatternsResult) -> list[Section]:
    """Build the sections of the page."""
    contest = result.contest
    counted = [Reference(bits, name) for name, bits in result.counted.items()]
    meaning = "Dashed: models that only count bytes, or bytes after one other byte."
    return sections(
        contest,
        "byte",
        [curves(contest, "byte", counted, meaning)],
        _attention(contest),
        hops_section(contest.stride, contest.summaries, rows=3),
    )


def _attention(result: ContestResult) -> list[str | Figure]:
    pages = {}
    table: list[dict[str, Cell]] = []
    depth = max(len(one.maps) for one in result.attended.values())
    for layer in range(depth):
        maps = {name: np.array(one.maps[layer], float) for name, one in result.attended.items()}
        past = np.tri(len(next(iter(maps.values()))), dtype=np.bool_)
        # Weights fall off steeply: their root shows the faint ones too.
        pictures = [np.where(past, np.sqrt(weights), np.nan) for weights in maps.values()]
        pages[str(layer + 1)] = tiles([pictures], [""], list(maps), "√weight")
        table += [
            {"model": name, "layer": layer + 1, "query": i, "key": j, "weight": weight}
            for name, weights in maps.items()
            for (i, j), weight in np.ndenumerate(weights)
            if weight > 0
        ]
    return [
        f"Attention weights of queries (down) on keys (across) among the first {len(past)} "
        "bytes of a passage, averaged over heads and held-out passages. Move the slider "
        "through the depth.",
        Figure(
            "Bytes looked at by depth",
            slider(pages, "layer"),
            "First seed of each model. Shades are roots of weights, so that faint ones show.",
            table,
        ),
        *distances(result, "bytes"),
    ]
