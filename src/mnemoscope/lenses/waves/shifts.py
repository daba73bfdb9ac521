"""Shift the wave of the queries by k tokens: does attention move by k?

Shapes: B texts, H heads, T positions, E width of a head, K shifts, O offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.attention_inputs import AttentionInputs, capture_attention_inputs
from mnemoscope.activations.fixed_length import FixedLengthTexts
from mnemoscope.core.arrays import Floats
from mnemoscope.lenses.waves.bands import Means
from mnemoscope.lenses.waves.summary import WaveShift
from mnemoscope.open import Reader

SHIFTS = (1, 2, 4)


@torch.no_grad()
def shifted(
    reader: Reader,
    fixed: FixedLengthTexts,
    means: Means,
    *,
    shifts: Sequence[int] = SHIFTS,
    reach: int = 16,
    batch: int = 4,
) -> WaveShift:
    """Give each query the mean of the position k tokens before it in place of its own.

    Words stay. The attention of a head is computed anew on the same inputs, so that no other head
    and no other layer has a part in it; a head that waves alone tell where to look looks k tokens
    further back.
    """
    most = max(shifts)
    sums: dict[int, Tensor] = {}
    flat: dict[int, Tensor] = {}

    def take(captured: AttentionInputs) -> None:
        given = captured.kept(fixed.kept)
        mean = means[given.layer][0].to(given.queries)
        tables = []
        for k in (0, *shifts):
            wave = torch.roll(mean, k, 1) - mean
            moved = replace(given, queries=given.queries + wave)
            tables.append(_by_offset(moved.attention(moved.scores()).sum(0), most, reach))
        new = torch.stack(tables)  # (1 + K, H, O)
        sums[given.layer] = sums.get(given.layer, 0) + new
        equal = given.visible / given.visible.sum(1, keepdim=True)
        flat[given.layer] = _by_offset(equal[None], most, reach)

    with capture_attention_inputs(reader.model, take):
        for tokens in fixed.batches(batch):
            reader.read(tokens)
    found = [
        _regress((sums[n] / len(fixed.tokens) - flat[n]).numpy(), shifts, most)
        for n in sorted(sums)
    ]
    both = np.array(found).transpose(1, 2, 0, 3)  # (2, K, L, H)
    return WaveShift(tuple(shifts), len(fixed.tokens), both[0], both[1])


def _by_offset(table: Tensor, most: int, reach: int) -> Tensor:
    """Mean by offset i − j of (H, T, T): (H, O), from −reach − most to reach + most.

    Of rows from ``most`` on: the ones before them have no mean to be given. What nobody sees is 0.
    """
    rows = table.shape[-2] - most
    found = []
    for offset in range(-reach - most, reach + most + 1):
        # Row i = most + r sees column i − offset.
        diagonal = torch.diagonal(table[:, most:], most - offset, 1, 2)
        found.append(diagonal.double().sum(1) / rows)
    return torch.stack(found, 1).cpu()


def _regress(above: Floats, shifts: Sequence[int], most: int) -> Floats:
    """Of attention above flat (1 + K, H, O): how much has moved, how much has stayed, (2, K, H).

    Least squares: attention after a shift ≈ moved · attention before, k further back, + stayed ·
    attention before. NaN where attention is flat to begin with.
    """
    plain, width = above[0], above.shape[2]
    inner = slice(most, width - most)
    found = np.full((2, len(shifts), len(plain)), np.nan)
    for number, k in enumerate(shifts):
        for head, before in enumerate(plain):
            if np.abs(before).max() < 1e-3:
                continue
            known = np.stack((before[most - k : width - most - k], before[inner]), 1)
            found[:, number, head] = np.linalg.lstsq(known, above[1 + number, head, inner])[0]
    return found
