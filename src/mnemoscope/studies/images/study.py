"""Does sparse attention draw images as well as dense attention, for the same compute?

Transformers read images pixel by pixel and learn what comes next; dense, strided and fixed
patterns (Child 2019), and the window alone as a control, get the same number of floating-point
operations.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from mnemoscope.data.images import ImageOptions, Images
from mnemoscope.studies.contest.options import Contest
from mnemoscope.studies.images.page import page
from mnemoscope.studies.images.result import ImagesResult

# Share of the images by which nothing is chosen: the bits of these are reported.
TEST = 0.1


class Drawing(ImageOptions, Contest):
    """Pixel by pixel

    A Transformer that draws an image one pixel after the other can look back at all pixels before,
    or at a few on a grid. Does it draw as well with few, for the same compute?
    """

    Result = ImagesResult
    page = staticmethod(page)
    presets = {
        "fashion": {
            "source": "fashion-mnist", "width": 32, "layers": 8, "dropout": 0.0, "summaries": 4,
            "steps": 1200, "batch": 2, "held_out": 64, "tested": 400, "warmup": 100,
        },
        "paper": {
            "width": 256, "layers": 16, "dropout": 0.25, "summaries": 8, "steps": 40_000,
            "learning_rates": (2e-4, 5e-4, 1e-3), "warmup": 1000, "seeds": 5,
        },
    }  # fmt: skip

    dropout: float = Field(0.1, ge=0, lt=1, description="share of activations dropped in training")
    steps: int = Field(600, ge=1, description="optimiser steps of the first; others by compute")
    batch: int = Field(32, ge=1, description="images per step")
    held_out: int = Field(180, ge=1, description="images that learning rates are chosen by")
    tested: int = Field(180, ge=1, description="other images, whose bits are reported")
    samples: int = Field(10, ge=1, description="images drawn and completed by every model")

    def run(self, folder: Path, jobs: int) -> ImagesResult:
        """Train every pattern × seed, measure bits per dimension and let each draw."""
        from mnemoscope.studies.images.measure import attended_from, draw

        task = Images.make(test=TEST, **self.some("source", "levels", "side", "colour"))
        models = self.contestants(
            task.vocab,
            stride=math.prod(task.shape[1:]),
            positions="axes",
            axes=task.shape,
            context=max(2, task.longest),
        )
        samples = min(self.samples, len(task.images("test")))
        result, firsts = self.compete("images", task, models, folder, jobs)
        pixel = (task.shape[0] * 2 // 3, task.shape[1] // 2)
        seen = {name: attended_from(home, pixel) for name, home in firsts.items()}
        made = {name: draw(home, samples) for name, home in firsts.items()}
        return ImagesResult(
            replace(result, attended=seen),
            task.shape,
            self.levels,
            counted_bits(task, self.tested),
            pixel,
            tuple(map(tuple, task.batch(0, samples, seed=0, split="test").targets.tolist())),
            {name: drawn for name, (drawn, _) in made.items()},
            {name: completed for name, (_, completed) in made.items()},
            neighbour_bits(task, self.tested),
        )


def counted_bits(task: Images, tested: int) -> float:
    """Bits per dimension of a model that knows how often each pixel has each brightness, no more.

    Counted on the images to train on, each brightness once more than seen; asked for the first
    ``tested`` of the test, as models are.
    """
    train, test = (images.reshape(len(images), -1) for images in _known(task, tested))
    counts = np.stack([(train == level).sum(0) + 1 for level in range(task.levels)])
    chances = counts / counts.sum(0)
    return float(-np.log2(np.take_along_axis(chances, test, 0)).mean())


def neighbour_bits(task: Images, tested: int) -> float:
    """The same of a model that counts each brightness after those to the left and above, jointly.

    In colour: of the same channel.
    """
    levels = task.levels

    def asked(images: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which pair of neighbours each pixel has, beyond the edge a level of its own; and it."""
        edge = np.pad(images, ((0, 0), (1, 0), (1, 0), (0, 0)), constant_values=levels)
        pairs = edge[:, 1:, :-1] * (levels + 1) + edge[:, :-1, 1:]
        return pairs.ravel(), images.ravel()

    train, test = (asked(images.reshape(*images.shape[:3], -1)) for images in _known(task, tested))
    size = (levels + 1) ** 2
    counts = np.bincount(train[0] * levels + train[1], minlength=size * levels) + 1
    chances = counts.reshape(size, levels) / counts.reshape(size, levels).sum(1, keepdims=True)
    return float(-np.log2(chances[test]).mean())


def _known(task: Images, tested: int) -> list[NDArray[np.int64]]:
    return [one.astype(np.int64) for one in (task.images("train"), task.images("test")[:tested])]
