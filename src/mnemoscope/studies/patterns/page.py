"""The page of the study `patterns`: every figure and every sentence is computed from its result."""

from __future__ import annotations

import numpy as np

from mnemoscope.lenses.lens import Records
from mnemoscope.plots.images import tiles
from mnemoscope.report.document import Figure, Section
from mnemoscope.studies.contest.claims import comparisons
from mnemoscope.studies.contest.page import distances, hops_section, sections, weight_rows
from mnemoscope.studies.contest.result import ContestResult
from mnemoscope.studies.patterns.result import PatternsResult

# What the paper found on text, and the control: is anything worth more than the window alone?
ASKED = comparisons("fixed", "strided")


def page(result: PatternsResult) -> list[Section]:
    """Build the sections of the page."""
    contest = result.contest
    meaning = "Dashed: models that only count bytes, or bytes after one other byte."
    hops = hops_section(contest.stride, contest.summaries, rows=3)
    return sections(contest, "byte", result.counted, ASKED, meaning, [_attention(contest)], hops)


def _attention(result: ContestResult) -> Section:
    table: Records = []
    pictures = []
    for name, one in result.attended.items():
        maps = np.array(one.maps, float)  # (layers, queries, keys)
        past = np.tri(maps.shape[1], dtype=np.bool_)
        # Weights fall off steeply: their root shows the faint ones too.
        pictures.append(np.where(past, np.sqrt(maps), np.nan))
        table += weight_rows(name, maps, "layer", "query", "key")
    layers = [f"layer {number + 1}" for number in range(len(pictures[0]))]
    return Section(
        "Where the layers attend",
        [
            *distances(result, "bytes"),
            f"Attention weights of queries (down) on keys (across) among the first {len(past)} "
            "bytes of a passage, averaged over heads and held-out passages.",
            Figure(
                "Bytes looked at by depth",
                tiles(pictures, list(result.attended), layers, "√weight"),
                "First seed of each model. Shades are roots of weights, so that faint ones show.",
                table,
            ),
        ],
    )
