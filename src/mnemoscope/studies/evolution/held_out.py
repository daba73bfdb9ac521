"""Which tokens of the test all models read, and where they are looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.data.sentences import Sentences
from mnemoscope.lenses.change.result import GroupedResult
from mnemoscope.studies.evolution.result import ByFrequency

SITES = ("embeddings", "layer.*.out")


def grouped(found: GroupedResult) -> ByFrequency:
    """Distances of groups, as data of this study."""
    distance, error = (
        tuple(tuple(row) for row in values.tolist()) for values in (found.distance, found.error)
    )
    return ByFrequency(tuple(found.groups), found.left_out, distance, error)


def held_out_batches(task: Sentences, tested: int, batch: int = 64) -> list[Tensor]:
    """The test sentences as tensors of one length each, the same for all models."""
    part = task.encoded("test")
    step = max(1, len(part) // tested)
    groups: dict[int, list[Any]] = {}
    for one in part[::step][:tested]:
        groups.setdefault(len(one), []).append(one)
    found = [
        torch.from_numpy(np.stack(rows[at : at + batch]))
        for _, rows in sorted(groups.items())
        for at in range(0, len(rows), batch)
    ]
    order = np.random.default_rng(0).permutation(len(found))
    return [found[number] for number in order]
