"""Does sparse attention draw images as well as dense attention, for the same compute?

Transformers read images pixel by pixel and learn what comes next; dense, strided and fixed
patterns (Child 2019), and the window alone as a control, get the same number of floating-point
operations.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from pydantic import Field

from mnemoscope.data.images import Images
from mnemoscope.studies.contest.options import Contest
from mnemoscope.studies.images.page import page
from mnemoscope.studies.images.result import Drawn, ImagesResult


class Drawing(Contest):
    """Pixel by pixel

    A Transformer that draws an image one pixel after the other can look back at all pixels before,
    or at a few on a grid. Does it draw as well with few, for the same compute?
    """

    Result = ImagesResult
    page = staticmethod(page)
    presets = {
        "paper": {
            "width": 256, "layers": 16, "dropout": 0.25, "summaries": 8, "steps": 40_000,
            "learning_rates": (2e-4, 5e-4, 1e-3), "warmup": 1000, "seeds": 5,
        },
    }  # fmt: skip

    source: str | None = Field(
        None, description="an idx file, a folder of images; none = the digits of scikit-learn"
    )
    levels: int = Field(16, ge=2, le=256, description="brightnesses a pixel can have")
    side: int = Field(32, ge=2, le=4096, description="pixels a side; only for a folder of images")
    colour: bool = Field(False, description="three channels a pixel; only for a folder of images")
    dropout: float = Field(0.1, ge=0, lt=1, description="share of activations dropped in training")
    steps: int = Field(600, ge=1, description="optimiser steps of the first; others by compute")
    batch: int = Field(32, ge=1, description="images per step")
    samples: int = Field(10, ge=1, description="images drawn and completed by every model")

    def run(self, folder: Path, jobs: int) -> ImagesResult:
        """Train every pattern × seed, measure bits per dimension and let each draw."""
        from mnemoscope.studies.images.measure import attended_from, draw

        task = Images.make(**self.some("source", "levels", "side", "colour"))
        models = self.contestants(
            task.vocab,
            stride=math.prod(task.shape[1:]),
            positions="axes",
            axes=task.shape,
            context=max(2, task.longest),
        )
        known = len(task.images("valid"))
        samples = min(self.samples, known)
        examine = partial(draw, samples=samples)
        result, firsts = self.compete(
            "images", task, models, min(512, known), folder, jobs, examine, Drawn
        )
        pixel = (task.shape[0] * 2 // 3, task.shape[1] // 2)
        seen = {name: attended_from(home, pixel) for name, (home, _) in firsts.items()}
        return ImagesResult(
            replace(result, attended=seen),
            task.shape,
            self.levels,
            counted_bits(task),
            pixel,
            tuple(map(tuple, task.batch(0, samples, seed=0, split="valid").targets.tolist())),
            {name: one.drawn for name, (_, one) in firsts.items()},
            {name: one.completed for name, (_, one) in firsts.items()},
        )


def counted_bits(task: Images) -> float:
    """Bits per dimension of a model that knows how often each pixel has each brightness, no more.

    Counted on the images to train on, each brightness once more than seen; asked for the others.
    """
    train = task.images("train").reshape(len(task.images("train")), -1)
    valid = task.images("valid").reshape(len(task.images("valid")), -1)
    counts = np.stack([(train == level).sum(0) + 1 for level in range(task.levels)])
    chances = counts / counts.sum(0)
    return float(-np.log2(np.take_along_axis(chances, valid.astype(np.int64), 0)).mean())
