"""Columns of queries and keys along positions, raw and with one band of periods passed.

Shapes: T positions, E width of a head.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mnemoscope.activations.attention_inputs import AttentionInputs, capture_attention_inputs
from mnemoscope.activations.fixed_length import FixedLengthTexts
from mnemoscope.lenses.positions.fourier import only_band
from mnemoscope.lenses.waves.bands import Means, octaves
from mnemoscope.lenses.waves.summary import HeadColumns
from mnemoscope.open import Reader


@torch.no_grad()
def columns(
    reader: Reader, fixed: FixedLengthTexts, means: Means, heads: Sequence[tuple[int, int]]
) -> tuple[HeadColumns, ...]:
    """The column of each head (layer, head) that brings most to its scores, in its best band.

    A score is a sum over columns, so the energy that a column brings is that of its query times
    that of its key. Raw is what one text has, and the mean over all; a band passes of the mean.
    """
    raw: dict[int, AttentionInputs] = {}

    def take(captured: AttentionInputs) -> None:
        raw[captured.layer] = captured.kept(fixed.kept)

    with capture_attention_inputs(reader.model, take):
        reader.read(fixed.tokens[:1])
    found = []
    for layer, head in heads:
        both = [means[layer][side][head] for side in (0, 1)]  # (T, E) each
        tried = []
        for band in octaves()[:-1]:
            passed = [only_band(one, band.low, band.high) for one in both]
            energy = passed[0].square().sum(0) * passed[1].square().sum(0)
            tried.append((float(energy.max()), int(energy.argmax()), band.name, passed))
        _, column, name, passed = max(tried, key=lambda one: one[0])
        text = (raw[layer].queries, raw[layer].keys)
        curves = [
            torch.stack([one[..., column].cpu().double() for one in sides]).numpy()
            for sides in ([one[0, head] for one in text], both, passed)
        ]
        found.append(HeadColumns(layer, head, column, name, *curves))
    return tuple(found)
