"""What the study `images` asks of trained models: to draw, and where they attend meanwhile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from mnemoscope.core.arrays import Floats
from mnemoscope.core.seeds import derive
from mnemoscope.data.images import Images
from mnemoscope.models.generation import generate
from mnemoscope.studies.contest.measure import attended, short
from mnemoscope.studies.contest.result import Attended
from mnemoscope.studies.images.result import Images as Drawn
from mnemoscope.training.machine import join
from mnemoscope.training.run import Run


def draw(folder: Path, samples: int) -> tuple[Drawn, Drawn]:
    """Images that a model draws, and images of the test that it completes."""
    run = Run.open(folder)
    task = run.config.task
    assert isinstance(task, Images)
    device = join(run.config.training.device).device
    model = run.model().to(device)
    generator = torch.Generator(device).manual_seed(derive(0, "draw"))
    start = torch.full((samples, 1), task.levels, device=device)
    half = task.longest // 2
    given = torch.from_numpy(task.batch(0, samples, seed=0, split="test").tokens).to(device)
    drawn = generate(model, start, task.longest, generator=generator).tokens
    rest = generate(model, given[:, : half + 1], task.longest - half, generator=generator).tokens
    completed = torch.cat((given[:, 1 : half + 1], rest), 1)
    # The start token can be said, though nobody does: it would be no brightness.
    made = [image.clamp(max=task.levels - 1).tolist() for image in (drawn, completed)]
    return tuple(made[0]), tuple(made[1])


def attended_from(folder: Path, pixel: tuple[int, int]) -> Attended:
    """Where each head of a trained model attends while it draws one pixel; channels are added up.

    Tokens stand one behind the pixels they read: token t has read the pixel t − 1.
    """
    task = Run.open(folder).config.task
    assert isinstance(task, Images)
    rows, columns, channels = (*task.shape, 1)[:3]
    at = (pixel[0] * columns + pixel[1]) * channels

    def drawn(maps: Floats) -> Floats:
        pixels = np.full((len(maps), rows * columns * channels), np.nan)
        pixels[:, :at] = maps[:, at, 1 : at + 1]
        pictures: Floats = pixels.reshape(-1, rows, columns, channels).sum(3)
        return pictures

    seen, heads = attended(folder, drawn)
    return replace(seen, maps=short(heads.mean(1)), by_head=short(heads))
