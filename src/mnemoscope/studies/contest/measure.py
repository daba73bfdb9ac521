"""What a contest of sparse patterns reads off trained models.

Shapes: B rows, H heads, L layers, T tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.core.arrays import Floats
from mnemoscope.lenses.attention_maps.lens import AttentionMaps
from mnemoscope.studies.contest.result import Attended, Curve, distance_bins
from mnemoscope.training.evaluate import evaluate
from mnemoscope.training.machine import join
from mnemoscope.training.run import Run

# Rows over which attention weights are averaged.
WATCHED = 32


def curve(folder: Path, tested: int) -> Curve:
    """The held-out loss of a run in bits against steps, how long it took, and bits of the test."""
    run = Run.open(folder)
    losses = {step: loss / math.log(2) for step, loss in run.valid_losses.items()}
    size = run.config.held_out_rows
    model = run.model().to(join(run.config.training.device).device)
    score = evaluate(
        model, run.config.task, batches=math.ceil(tested / size), size=size, split="test"
    )
    bits = score.loss / math.log(2)
    return Curve(tuple(losses), tuple(losses.values()), run.seconds, bits)


class _Heads(AttentionMaps):
    """The lens, and beside it the shares of attention by distance and what is drawn of each head.

    ``drawn`` picks what is drawn of maps (H, T, T).
    """

    def __init__(self, drawn: Callable[[Floats], Floats]) -> None:
        super().__init__()
        self.drawn, self.rows = drawn, 0
        self.by_distance: Any = 0.0
        self.pictures: Any = 0.0

    def see_heads(self, maps: Sequence[Tensor]) -> None:
        """Add up what is kept of maps (B, H, T, T)."""
        sums = [one.double().sum(0).cpu().numpy() for one in maps]
        self.rows += len(maps[0])
        self.by_distance += np.stack([shares_by_distance(one) for one in sums])
        self.pictures += np.stack([self.drawn(one) for one in sums])


def shares_by_distance(weights: Floats) -> Floats:
    """Attention (H, T, T) by powers of two of the distance, (H, bins), mean over queries.

    Only of the second half of the queries: they can look back over half of all distances at least.
    """
    length = weights.shape[-1]
    queries = np.arange(length // 2, length)
    apart = np.maximum(queries[:, None] - np.arange(length), 0)
    place = np.ceil(np.log2(apart + 1)).astype(int)
    late = weights[:, length // 2 :]
    bins = range(len(distance_bins(length)))
    return np.stack([(late * (place == one)).sum((1, 2)) for one in bins], 1) / len(queries)


def attended(folder: Path, drawn: Callable[[Floats], Floats]) -> tuple[Attended, Floats]:
    """Where a trained model attends on held-out data, and the mean of what is drawn, (L, H, …)."""
    run = Run.open(folder)
    tokens = torch.from_numpy(run.config.task.batch(0, WATCHED, seed=0, split="valid").tokens)
    lens, model = _Heads(drawn), run.model()
    for some in torch.split(tokens, lens.batch):
        lens.observe(model, some)
    seen = lens.result()
    low, high = np.quantile(seen.distances, (0.1, 0.9), axis=0)
    mean, low, high, even = (
        tuple(short(values)) for values in (seen.distances.mean(0), low, high, seen.even)
    )
    shares = short(lens.by_distance / lens.rows)
    return Attended(seen.patterns, mean, low, high, even, (), shares), lens.pictures / lens.rows


def short(values: Floats) -> Any:
    """Numbers as nested lists, with as many digits as a picture can show; None for NaN."""
    if values.ndim:
        return [short(one) for one in values]
    return None if np.isnan(values) else float(f"{values:.3g}")
