"""The page of the study `patterns`: every figure and every sentence is computed from its result."""

from __future__ import annotations

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.lenses.lens import Records
from mnemoscope.plots.images import tiles
from mnemoscope.report.document import Figure, Section
from mnemoscope.studies.contest.claims import comparisons
from mnemoscope.studies.contest.page import (
    distances,
    heads_figure,
    hops_section,
    sections,
    weight_rows,
)
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
        pictures.append(_shade(maps))
        table += weight_rows(name, maps, "layer", "query", "key")
    layers = [f"layer {number + 1}" for number in range(len(pictures[0]))]
    return Section(
        "Where the layers attend",
        [
            *distances(result, "bytes"),
            "Attention weights of queries (down) on keys (across) among the first "
            f"{pictures[0].shape[1]} bytes of a passage, averaged over heads and held-out "
            "passages.",
            Figure(
                "Bytes looked at by depth",
                tiles(pictures, list(result.attended), layers, "√weight"),
                "First seed of each model. Shades are roots of weights, so that faint ones show.",
                table,
            ),
            *heads_figure("Bytes looked at by head", result.attended, ("query", "key"), _shade),
        ],
    )


def _shade(maps: Floats) -> Floats:
    """Roots of weights (…, queries, keys), which fall off steeply; what is to come is not known."""
    past = np.tri(maps.shape[-1], dtype=np.bool_)
    shade: Floats = np.where(past, np.sqrt(maps), np.nan)
    return shade
