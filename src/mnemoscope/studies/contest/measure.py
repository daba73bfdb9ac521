"""What a contest of sparse patterns reads off trained models."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch

from mnemoscope.core.arrays import Floats
from mnemoscope.lenses.attention_maps.lens import AttentionMaps
from mnemoscope.studies.contest.result import Attended, Curve
from mnemoscope.training.run import Run

# Rows over which attention weights are averaged.
WATCHED = 32


def curve(folder: Path) -> Curve:
    """The held-out loss of a run in bits, against steps; and how long it took."""
    run = Run.open(folder)
    losses = run.valid_losses
    return Curve(tuple(losses), tuple(loss / math.log(2) for loss in losses.values()), run.seconds)


def attended(folder: Path) -> tuple[Attended, Floats]:
    """Where a trained model attends on held-out data, and its mean weights (layers, T, T)."""
    run = Run.open(folder)
    batch = run.config.task.batch(0, WATCHED, seed=0, split="valid")
    lens = AttentionMaps()
    lens.observe(run.model(), torch.from_numpy(batch.tokens))
    seen = lens.result()
    low, high = np.quantile(seen.distances, (0.1, 0.9), axis=0)
    mean, low, high, even = (
        tuple(values.tolist()) for values in (seen.distances.mean(0), low, high, seen.even)
    )
    return Attended(seen.patterns, mean, low, high, even, ()), seen.weights
