"""Does sparse attention draw images as well as dense attention, for the same compute?

Transformers read images pixel by pixel and learn what comes next; dense, strided and fixed
patterns (Child 2019), and the window alone as a control, get the same number of floating-point
operations.

Nothing here imports torch before the study runs, so that a mistyped option shows at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from mnemoscope.core.seeds import derive
from mnemoscope.data.images import Images
from mnemoscope.report.document import Section
from mnemoscope.studies.contest import Contest, curve


class Drawing(Contest):
    """Options of the study; presets change them."""

    title: ClassVar[str] = "Pixel by pixel"
    question: ClassVar[str] = (
        "A Transformer that draws an image one pixel after the other can look back at all pixels "
        "before, or at a few on a grid. Does it draw as well with few, for the same compute?"
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {},
        "paper": {
            "width": 256,
            "layers": 16,
            "dropout": 0.25,
            "summaries": 8,
            "steps": 40_000,
            "learning_rates": (2e-4, 5e-4, 1e-3),
            "warmup": 1000,
            "seeds": 5,
        },
    }

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

    def run(self, folder: Path, jobs: int) -> dict[str, Any]:
        """Train every pattern × seed, measure bits per dimension and let each draw."""
        options = {name: getattr(self, name) for name in ("source", "levels", "side", "colour")}
        task = Images.make(**options)
        models = self.contestants(
            task.vocab,
            stride=math.prod(task.shape[1:]),
            positions="axes",
            axes=task.shape,
            context=max(2, task.longest),
        )
        known = len(task.images("valid"))
        examine = partial(draw, samples=min(self.samples, known))
        result = self.compete("images", task, models, min(512, known), folder, jobs, examine)
        return {
            **result,
            "shape": list(task.shape),
            "levels": self.levels,
            "counted": counted_bits(task),
        }

    def tell(self, result: dict[str, Any], folder: Path) -> Sequence[Section]:
        """Say and draw what was seen."""
        from mnemoscope.studies.images import page as images_page

        return images_page.tell(result, folder / "runs", self.summaries)


def counted_bits(task: Images) -> float:
    """Bits per dimension of a model that knows how often each place has each brightness, no more.

    Counted on the images to train on, each brightness once more than seen; asked for the others.
    """
    train = task.images("train").reshape(len(task.images("train")), -1)
    valid = task.images("valid").reshape(len(task.images("valid")), -1)
    counts = np.stack([(train == level).sum(0) + 1 for level in range(task.levels)])
    chances = counts / counts.sum(0)
    return float(-np.log2(np.take_along_axis(chances, valid.astype(np.int64), 0)).mean())


def draw(folder: Path, samples: int) -> dict[str, Any]:
    """The learning curve of a run, images it draws, and held-out images it completes."""
    import torch

    from mnemoscope.models.generation import generate
    from mnemoscope.training.machine import join
    from mnemoscope.training.run import Run

    run = Run.open(folder)
    task = run.config.task
    assert isinstance(task, Images)
    device = join(run.config.training.device).device
    model = run.model().to(device)
    generator = torch.Generator(device).manual_seed(derive(0, "draw"))
    start = torch.full((samples, 1), task.levels, device=device)
    half = task.longest // 2
    given = torch.from_numpy(task.batch(0, samples, seed=0, split="valid").tokens).to(device)
    drawn = generate(model, start, task.longest, generator=generator).tokens
    rest = generate(model, given[:, : half + 1], task.longest - half, generator=generator).tokens
    completed = torch.cat((given[:, 1 : half + 1], rest), 1)
    # The start token can be said, though nobody does: it would be no brightness.
    images = {"drawn": drawn, "completed": completed}
    return {
        **curve(folder),
        **{name: image.clamp(max=task.levels - 1).tolist() for name, image in images.items()},
    }
