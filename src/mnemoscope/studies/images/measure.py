"""What the study `images` asks of trained models: to draw, and where they attend meanwhile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from mnemoscope.core.seeds import derive
from mnemoscope.data.images import Images
from mnemoscope.models.generation import generate
from mnemoscope.studies.contest.measure import attended, curve
from mnemoscope.studies.contest.result import Attended
from mnemoscope.studies.images.result import Drawn
from mnemoscope.training.machine import join
from mnemoscope.training.run import Run


def draw(folder: Path, samples: int) -> Drawn:
    """The learning curve of a run, images it draws, and held-out images it completes."""
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
    made = [image.clamp(max=task.levels - 1).tolist() for image in (drawn, completed)]
    learnt = curve(folder)
    return Drawn(learnt.steps, learnt.bits, learnt.seconds, tuple(made[0]), tuple(made[1]))


def attended_from(folder: Path, pixel: tuple[int, int]) -> Attended:
    """Where a trained model attends while it draws one pixel; channels are added up.

    Tokens stand one behind the pixels they read: token t has read the pixel t − 1.
    """
    task = Run.open(folder).config.task
    assert isinstance(task, Images)
    rows, columns, channels = (*task.shape, 1)[:3]
    at = (pixel[0] * columns + pixel[1]) * channels
    seen, weights = attended(folder)
    pixels = np.full((len(weights), rows * columns * channels), np.nan)
    pixels[:, :at] = weights[:, at, 1 : at + 1]
    pictures = pixels.reshape(-1, rows, columns, channels).sum(3)
    known = tuple(
        tuple(tuple(None if np.isnan(one) else float(one) for one in row) for row in picture)
        for picture in pictures
    )
    return replace(seen, maps=known)
