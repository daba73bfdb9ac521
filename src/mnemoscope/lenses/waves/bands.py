"""Take a band of frequencies out of queries and keys, and see what the model loses.

Shapes: B texts, H heads, T positions, E width of a head.

Only the part of queries and keys that is the same whatever is read is filtered: their mean by
position. Filtering a text along its positions would carry words from later positions to earlier
ones, and a language model would read its answers there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.attention_inputs import AttentionInputs, capture_attention_inputs
from mnemoscope.activations.fixed_length import FixedLengthTexts
from mnemoscope.core.errors import UserError
from mnemoscope.lenses.positions.fourier import only_band
from mnemoscope.lenses.positions.frequencies import OCTAVES, band_names
from mnemoscope.lenses.waves.losses import loss_of
from mnemoscope.lenses.waves.result import MODES, BandsResult
from mnemoscope.open import Reader

# By layer, mean queries and keys by position, each (H, T, E).
Means = Mapping[int, tuple[Tensor, Tensor]]
Mode = Literal["stop", "pass", "shuffled"]


@dataclass(frozen=True)
class Band:
    """low ≤ frequency < high, in cycles per token."""

    name: str
    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high <= 0.5:
            raise UserError(
                f"a band lies between 0 and 0.5 cycles per token, not {self.low:g} to {self.high:g}"
            )


def octaves() -> list[Band]:
    """The bands of `mnemoscope.lenses.positions.frequencies`, and all of them together."""
    ends = [1 / period for period in OCTAVES] + [0.0]
    found = [Band(n, ends[i + 1], ends[i]) for i, n in enumerate(band_names())]
    return [*found, Band("all", 0.0, 0.5)]


def taken_off(means: Means, band: Band, mode: Mode = "stop", seed: int = 0) -> Means:
    """What a filter takes off queries and keys, by layer."""
    if mode not in MODES:
        raise UserError(f"a filter can stop, pass or be shuffled, not {mode!r}")
    found = {}
    for layer, (queries, keys) in means.items():
        parts = []
        for signal in (queries, keys):
            inside = only_band(signal, band.low, band.high)
            if mode == "pass":
                inside = signal - signal.mean(1, keepdim=True) - inside
            if mode == "shuffled":
                generator = torch.Generator().manual_seed(seed + layer)
                order = torch.randperm(inside.shape[1], generator=generator)
                inside = inside[:, order]
            parts.append(inside)
        found[layer] = (parts[0], parts[1])
    return found


class Filter:
    """A change of queries and keys for `capture_attention_inputs`."""

    def __init__(self, off: Means, kept: slice) -> None:
        self.off, self.kept = off, kept
        self.before: dict[tuple[int, str], Tensor] = {}

    def __call__(self, layer: int, kind: Literal["q", "k"], value: Tensor) -> Tensor:
        """Take off what belongs to a layer; heads that share a key share what is taken off."""
        self.before[layer, kind] = value.detach()
        if layer not in self.off:
            return value
        signal = self.off[layer][kind == "k"]
        signal = signal[:: signal.shape[0] // value.shape[1]].to(value)
        changed = value.clone()
        changed[:, :, self.kept] -= signal
        return changed


@torch.no_grad()
def effects(
    reader: Reader,
    fixed: FixedLengthTexts,
    means: Means,
    *,
    bands: Sequence[Band] | None = None,
    modes: Sequence[Mode] = ("stop", "pass", "shuffled"),
    batch: int = 32,
) -> BandsResult:
    """Filter every layer's queries and keys at once, band by band, and read the same texts."""
    bands = octaves() if bands is None else list(bands)
    question = loss_of(reader, fixed.tokens)
    usable = fixed.tokens[: len(fixed.tokens) // 2 * 2]
    if not len(usable):
        raise UserError("at least two texts are needed to see what a filter does")

    def losses(off: Means | None) -> tuple[Tensor, dict[int, list[float]]]:
        found, moved = [], {number: [0.0, 0.0] for number in means}
        for tokens in torch.split(usable, batch):
            change = Filter(off or {}, fixed.kept)

            def take(captured: AttentionInputs, change: Filter = change) -> None:
                if off is not None:
                    _compare(captured, change, moved[captured.layer])

            with capture_attention_inputs(reader.model, take, change):
                if question is None:
                    reader.read(tokens)
                else:
                    found.append(question.of(tokens, fixed.kept))
        return torch.cat(found) if found else torch.tensor([torch.nan]), moved

    plain, _ = losses(None)
    change: dict[str, list[float]] = {mode: [] for mode in modes}
    error: dict[str, list[float]] = {mode: [] for mode in modes}
    shifted: dict[str, list[list[float]]] = {mode: [] for mode in modes}
    for mode in modes:
        for band in bands:
            filtered, moved = losses(taken_off(means, band, mode))
            apart = filtered - plain
            change[mode].append(float(apart.mean()))
            error[mode].append(2 * float(apart.std(correction=0)) / len(apart) ** 0.5)
            shifted[mode].append([total / max(count, 1) for total, count in moved.values()])
    return BandsResult(
        asked="" if question is None else question.name,
        bands=tuple(band.name for band in bands),
        texts=len(usable),
        loss=float(plain.mean()),
        change={mode: np.array(values) for mode, values in change.items()},
        error={mode: np.array(values) for mode, values in error.items()},
        moved={mode: np.array(values) for mode, values in shifted.items()},
    )


def _compare(captured: AttentionInputs, change: Filter, sums: list[float]) -> None:
    """Half the sum of absolute differences of attention with and without the filter.

    On the first texts of a batch: two tables of scores for each are many numbers.
    """
    few, kept = 2, captured.queries.shape[2]
    queries, keys = (change.before[captured.layer, side][:few] for side in "qk")
    keys = keys.repeat_interleave(captured.shared, 1)
    before = replace(captured, queries=queries, keys=keys)
    after = replace(captured, queries=captured.queries[:few], keys=captured.keys[:few])
    apart = before.attention(before.scores()) - after.attention(after.scores())
    sums[0] += float(apart.abs().sum()) / 2
    sums[1] += apart.shape[0] * apart.shape[1] * kept
