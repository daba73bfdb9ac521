"""The page of the study `images`: every figure and every sentence is computed from its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mnemoscope.core.arrays import Floats
from mnemoscope.plots.figure import Reference
from mnemoscope.plots.images import slider, tiles
from mnemoscope.report.document import Cell, Figure, Section
from mnemoscope.studies.contest.page import curves, distances, hops_section, sections
from mnemoscope.studies.images.result import ImagesResult


def page(result: ImagesResult) -> list[Section]:
    """Build the sections of the page."""
    contest = result.contest
    counted = Reference(result.counted, "each pixel by its own frequencies")
    meaning = (
        f"A dimension is one pixel of {result.levels} levels; guessing costs "
        f"{np.log2(result.levels):.2f} bits."
    )
    return sections(
        contest,
        "dimension",
        [
            curves(contest, "dimension", [counted], meaning),
            _pictures(result, "drawn"),
            _pictures(result, "completed"),
        ],
        _attention(result),
        hops_section(result.shape[1], contest.summaries, rows=4),
        known="A model that knows only how often each pixel has each brightness needs "
        f"{result.counted:.3f} bits. ",
    )


def _pictures(result: ImagesResult, what: Literal["drawn", "completed"]) -> Figure:
    """Real images in the first line, then what the first seed of every model made."""
    made = result.drawn if what == "drawn" else result.completed
    lines_of = {"real": result.real, **made}
    pictures = [_grey(np.array(images), result.shape) for images in lines_of.values()]
    count = len(result.real)
    caption = {
        "drawn": "First line: held-out images. Below: drawn freely by the first seed of each "
        "model, pixel by pixel at temperature 1, not chosen.",
        "completed": "First line: held-out images. Below: each model was shown the upper half "
        "and drew the lower one, at temperature 1, not chosen.",
    }
    return Figure(
        f"Images {what}",
        tiles(pictures, list(lines_of), [""] * count, "brightness"),
        caption[what],
        [
            {"model": name, "image": number, "pixels": " ".join(map(str, image))}
            for name, images in lines_of.items()
            for number, image in enumerate(images)
        ],
    )


def _grey(images: NDArray[np.int64], shape: Sequence[int]) -> Floats:
    """Images (N, pixels) as (N, rows, columns); channels are averaged."""
    pixels = images.reshape(len(images), shape[0], shape[1], -1)
    grey: Floats = pixels.mean(3)
    return grey


def _attention(result: ImagesResult) -> list[str | Figure]:
    pixel, seen = result.pixel, result.contest.attended
    pages = {}
    table: list[dict[str, Cell]] = []
    for layer in range(max(len(one.maps) for one in seen.values())):
        # Each picture from nothing to its own largest weight.
        pictures = [np.array(one.maps[layer], float) for one in seen.values()]
        shades = [picture / np.nanmax(picture) for picture in pictures]
        pages[str(layer + 1)] = tiles([shades], [""], list(seen), "weight", marked=pixel)
        table += [
            {"model": name, "layer": layer + 1, "row": row, "column": column, "weight": weight}
            for name, picture in zip(seen, pictures, strict=True)
            for (row, column), weight in np.ndenumerate(picture)
            if np.isfinite(weight)
        ]
    return [
        f"The framed pixel (row {pixel[0]}, column {pixel[1]}) is about to be drawn. Shades "
        "say how much each layer attends to the pixels before it, averaged over heads and "
        f"32 held-out images; each picture is scaled to its own largest weight. Move "
        "the slider through the depth.",
        Figure(
            "Pixels looked at by depth",
            slider(pages, "layer"),
            "First seed of each model. The framed pixel and those after it are not known yet.",
            table,
        ),
        *distances(result.contest, "pixels"),
    ]
