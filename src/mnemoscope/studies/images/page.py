"""The page of the study `images`: every figure and every sentence is computed from its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mnemoscope.core.arrays import Floats
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
from mnemoscope.studies.images.result import ImagesResult

# What the paper found on images, and the control: are columns worth more than the window alone?
ASKED = comparisons("strided", "fixed")


def page(result: ImagesResult) -> list[Section]:
    """Build the sections of the page."""
    contest = result.contest
    counted = {"each pixel by its own frequencies": result.counted}
    if result.neighbours is not None:
        counted["pixels counted after those left and above"] = result.neighbours
    meaning = (
        f"A dimension is one pixel of {result.levels} levels; guessing costs "
        f"{np.log2(result.levels):.2f} bits."
    )
    completed = [_pictures(result, "completed")] if result.completed else []
    seen = [
        Section("What they draw", [_pictures(result, "drawn"), *completed]),
        Section("Where the layers attend", _attention(result)),
    ]
    hops = hops_section(result.shape[1], contest.summaries, rows=4)
    return sections(contest, "dimension", counted, ASKED, meaning, seen, hops)


def _pictures(result: ImagesResult, what: Literal["drawn", "completed"]) -> Figure:
    """Real images in the first line, if known, then what the first seed of every model made."""
    made = result.drawn if what == "drawn" else result.completed
    lines_of = {"real": result.real, **made} if result.real else made
    pictures = [_grey(np.array(images), result.shape) for images in lines_of.values()]
    count = len(next(iter(made.values())))
    first = "First line: held-out images. " if result.real else ""
    caption = {
        "drawn": f"{first}Drawn freely by the first seed of each model, pixel by pixel at "
        "temperature 1, not chosen.",
        "completed": f"{first}Each model was shown the upper half and drew the lower one, at "
        "temperature 1, not chosen.",
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
    depth = max(len(one.maps) for one in seen.values())
    layers = [f"layer {number + 1}" for number in range(depth)]
    pictures = [[_shade(np.array(layer, float)) for layer in one.maps] for one in seen.values()]
    table = [
        row
        for name, one in seen.items()
        for row in weight_rows(name, np.array(one.maps, float), "layer", "row", "column")
    ]
    parts: list[str | Figure] = [
        f"The framed pixel (row {pixel[0]}, column {pixel[1]}) is about to be drawn. Shades "
        "say how much each layer attends to the pixels before it, mean over 32 held-out images; "
        "each picture is scaled to its own largest weight, and roots are drawn, so that faint "
        "ones show.",
        Figure(
            "Pixels looked at by depth",
            tiles(pictures, list(seen), layers, "√weight", marked=pixel),
            "First seed of each model, mean over heads, first layer left. The framed pixel and "
            "those after it are not known yet.",
            table,
        ),
    ]
    heads = heads_figure("Pixels looked at by head", seen, ("row", "column"), _shade, pixel)
    return [*parts, *heads, *distances(result.contest, "pixels")]


def _shade(picture: Floats) -> Floats:
    """Roots of weights from nothing to the picture's own largest."""
    shade: Floats = np.sqrt(picture / np.nanmax(picture))
    return shade
