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
from mnemoscope.activations.fixed_length import FixedLengthTexts, lay
from mnemoscope.core.arrays import Floats
from mnemoscope.core.errors import UserError
from mnemoscope.lenses.information.entropy import entropy
from mnemoscope.lenses.positions.fourier import only_band
from mnemoscope.lenses.positions.frequencies import OCTAVES, band_names
from mnemoscope.lenses.waves.losses import loss_of
from mnemoscope.lenses.waves.summary import BandFilters
from mnemoscope.open import Reader

# By layer, of queries and of keys: means by position (H, T, E), variances of heads (H,).
Means = Mapping[int, tuple[Tensor, Tensor]]
Mode = Literal["stop", "pass", "elsewhere"]
MODES: tuple[Mode, ...] = ("stop", "pass", "elsewhere")


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


# What is taken off queries or keys: a signal (H, T, E), and a share (H,) of all that they are.
Removal = tuple[Tensor, Tensor]
Removals = Mapping[int, tuple[Removal, Removal]]


def taken_off(
    means: Means, band: Band, mode: Mode = "stop", variances: Means | None = None
) -> Removals:
    """What a filter takes off queries and keys, by layer.

    The control, ``elsewhere``, leaves the band and takes as much energy off all the rest, as far as
    there is as much; it needs the ``variances``.
    """
    if mode not in MODES:
        raise UserError(f"a filter can stop, pass or take energy off elsewhere, not {mode!r}")
    if mode == "elsewhere" and variances is None:
        raise UserError("to take as much energy off elsewhere, the variances are needed")
    found = {}
    for layer, both in means.items():
        parts = []
        for side, signal in enumerate(both):
            inside = only_band(signal, band.low, band.high)
            constant = signal.mean(1, keepdim=True)
            share = signal.new_zeros(len(signal))
            if mode == "pass":
                inside = signal - constant - inside
            elif mode == "elsewhere":
                assert variances is not None
                taken, rest = _energies(inside, variances[layer][side])
                share = (taken / rest.clamp(min=1e-300)).clamp(max=1).sqrt()
                inside = -share[:, None, None] * (constant + inside)
            parts.append((inside, share))
        found[layer] = (parts[0], parts[1])
    return found


def matched(means: Means, variances: Means, band: Band) -> float:
    """How much of a band's energy can be had elsewhere: 1 when there is as much everywhere."""
    taken = had = 0.0
    for layer, both in means.items():
        for signal, variance in zip(both, variances[layer], strict=True):
            mine, rest = _energies(only_band(signal, band.low, band.high), variance)
            taken, had = taken + float(mine.sum()), had + float(torch.minimum(mine, rest).sum())
    return had / taken if taken > 0 else 1.0


def _energies(inside: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    """Energy per token of a band (H, T, E), and of all the rest but the constant, (H,)."""
    mine = inside.square().sum(2).mean(1)
    return mine, (variance - mine).clamp(min=0)


class Filter:
    """A change of queries and keys for `capture_attention_inputs`."""

    def __init__(self, removals: Removals, kept: slice) -> None:
        self.removals, self.kept = removals, kept
        self.before: dict[tuple[int, str], Tensor] = {}

    def __call__(self, layer: int, kind: Literal["q", "k"], value: Tensor) -> Tensor:
        """Take off what belongs to a layer."""
        self.before[layer, kind] = value.detach()
        if layer not in self.removals:
            return value
        signal, share = self.removals[layer][kind == "k"]
        # Heads that share a key share what is taken off.
        every = len(share) // value.shape[1]
        signal, share = signal[::every].to(value), share[::every, None, None].to(value)
        changed = value.clone()
        changed[:, :, self.kept] -= signal + share * value[:, :, self.kept]
        return changed


@torch.no_grad()
def effects(
    reader: Reader,
    fixed: FixedLengthTexts,
    means: Means,
    variances: Means,
    *,
    bands: Sequence[Band] | None = None,
    batch: int = 32,
) -> BandFilters:
    """Filter every layer's queries and keys at once, band by band, and read the same texts."""
    bands = octaves() if bands is None else list(bands)
    question = loss_of(reader)
    top = f"layer.{max(means)}.out"

    def read(removals: Removals | None) -> tuple[Tensor, dict[int, list[float]]]:
        """Losses (N,), or without a question what the last layer gives (N, T, D)."""
        found, moved = [], {number: [0.0, 0.0] for number in means}
        for tokens in torch.split(fixed.tokens, batch):
            change = Filter(removals or {}, fixed.kept)

            def take(captured: AttentionInputs, change: Filter = change) -> None:
                if removals is not None:
                    _compare(captured, change, moved[captured.layer])

            with capture_attention_inputs(reader.model, take, change):
                if question is None:
                    found.append(lay(reader, tokens, fixed.kept, top)[top].cpu().float())
                else:
                    found.append(question.of(tokens, fixed.kept))
        return torch.cat(found), moved

    plain, _ = read(None)
    spread = plain.flatten(0, -2).var(0, correction=0).sum() if question is None else None
    found: dict[str, dict[str, Floats]] = {"change": {}, "error": {}, "moved": {}}
    for mode in MODES:
        rows = []
        for band in bands:
            filtered, moved = read(taken_off(means, band, mode, variances))
            apart = filtered - plain
            if spread is not None:
                apart = apart.square().sum(2).mean(1) / spread
            error = 2 * float(apart.std(correction=0)) / len(apart) ** 0.5
            shares = [total / max(count, 1) for total, count in moved.values()]
            rows.append((float(apart.mean()), error, shares))
        for name, values in zip(found, zip(*rows, strict=True), strict=True):
            found[name][mode] = np.array(values)
    return BandFilters(
        asked="" if question is None else question.name,
        bands=tuple(band.name for band in bands),
        texts=len(fixed.tokens),
        loss=float("nan") if question is None else float(plain.mean()),
        **found,
        matched=np.array([matched(means, variances, band) for band in bands]),
        entropy=entropy(fixed.tokens[:, fixed.kept].numpy()),
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
