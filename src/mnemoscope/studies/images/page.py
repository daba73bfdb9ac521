"""The page of the study `images`: every figure and every sentence is computed from its result."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemoscope.data.images import Images
from mnemoscope.lenses.attention_maps.result import AttentionMapsResult
from mnemoscope.plots.figure import Reference
from mnemoscope.plots.images import slider, tiles
from mnemoscope.report.document import Figure, Section
from mnemoscope.studies.contest_page import (
    WATCHED,
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
from mnemoscope.training.run import Run

Floats = NDArray[np.float64]


def tell(result: dict[str, Any], runs: Path, summaries: int) -> Sequence[Section]:
    """Build the sections of the page."""
    seen = watch(result, runs)
    return [
        _quality(result, runs),
        _looks(result, seen),
        hops_section(result["shape"][1], summaries, rows=4),
        costs(result, "dimension"),
    ]


def _quality(result: dict[str, Any], runs: Path) -> Section:
    first = next(iter(result["models"]))
    counted = Reference(result["counted"], "each place by its own frequencies")
    told = [
        f"Held-out bits per dimension, best first: {order(result)}. {FEWER}",
        "; ".join(differences(result, first)) + "." if len(result["models"]) > 1 else "",
        f"A model that knows only how often each place has each brightness needs "
        f"{result['counted']:.3f} bits. {rates(result)}",
    ]
    return Section(
        "What was seen",
        [
            *(text for text in told if text),
            curves(
                result,
                "dimension",
                [counted],
                f"A dimension is one pixel of {result['levels']} levels; guessing costs "
                f"{np.log2(result['levels']):.2f} bits.",
            ),
            _gallery(result, runs, "drawn"),
            _gallery(result, runs, "completed"),
        ],
    )


def _gallery(result: dict[str, Any], runs: Path, what: str) -> Figure:
    """Real images in the first line, then what the first seed of every model made."""
    task = Run.open(runs / result["trials"][0]["run"]).config.task
    assert isinstance(task, Images)
    made = {
        row["model"]: np.array(row[what])
        for row in result["trials"]
        if row["seed"] == 0 and what in row
    }
    count = len(next(iter(made.values())))
    real = task.batch(0, count, seed=0, split="valid").targets
    lines_of = {"real": real, **made}
    pictures = [_grey(images, result["shape"]) for images in lines_of.values()]
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
            for number, image in enumerate(np.asarray(images).tolist())
        ],
    )


def _grey(images: NDArray[np.int64], shape: Sequence[int]) -> Floats:
    """Images (N, pixels) as (N, rows, columns); channels are averaged."""
    pixels = images.reshape(len(images), shape[0], shape[1], -1)
    grey: Floats = pixels.mean(3)
    return grey


def _looks(result: dict[str, Any], seen: dict[str, AttentionMapsResult]) -> Section:
    rows, columns, channels = (*result["shape"], 1)[:3]
    pixel = (rows * 2 // 3, columns // 2)
    place = (pixel[0] * columns + pixel[1]) * channels
    maps = {name: one.seen_from(place, (rows, columns, channels)) for name, one in seen.items()}
    pages, table = {}, []
    depth = len(next(iter(seen.values())).patterns)
    for layer in range(depth):
        # Channels are added up; each picture from nothing to its own largest weight.
        pictures = [found[layer].sum(2) for found in maps.values()]
        shades = [picture / np.nanmax(picture) for picture in pictures]
        pages[str(layer + 1)] = tiles([shades], [""], list(maps), "weight", marked=pixel)
        table += [
            {"model": name, "layer": layer + 1, "row": row, "column": column, "weight": weight}
            for name, picture in zip(maps, pictures, strict=True)
            for (row, column), weight in np.ndenumerate(picture)
            if np.isfinite(weight)
        ]
    return Section(
        "Where the layers look",
        [
            f"The framed pixel (row {pixel[0]}, column {pixel[1]}) is about to be drawn. Shades "
            "say how much each layer looks at the pixels before it, averaged over heads and "
            f"{WATCHED} held-out images; each picture is scaled to its own largest weight. Move "
            "the slider through the depth.",
            Figure(
                "Pixels looked at by depth",
                slider(pages, "layer"),
                "First seed of each model. The framed pixel and those after it are not known yet.",
                table,
            ),
            *distances(seen, "pixels"),
        ],
    )
