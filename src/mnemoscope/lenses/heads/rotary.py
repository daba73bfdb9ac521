"""Scores of a model with rotary positions: without them, and by pair of columns that turn together.

Shapes: B texts, H heads, T positions, P pairs, O = 2T − 1 offsets.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.attention_inputs import AttentionInputs
from mnemoscope.activations.weights import HeadWeights, project
from mnemoscope.core.arrays import Floats
from mnemoscope.lenses.heads.offsets import Offsets


class RotarySums:
    """Running sums beside those of `mnemoscope.lenses.heads.sums.LayerSums`."""

    def __init__(self, weights: HeadWeights, offsets: Offsets) -> None:
        assert weights.rotary is not None
        self.weights, self.offsets, self.rotary = weights, offsets, weights.rotary
        heads, length = len(weights.query), len(offsets.visible)
        self.scores = torch.zeros(heads, length, length, dtype=torch.float64)
        self.energy = torch.zeros(heads, dtype=torch.float64)
        self.crossed = torch.zeros(
            heads, len(self.rotary.columns), length + 1, dtype=torch.complex128
        )

    @property
    def periods(self) -> Floats:
        """Tokens in which a pair turns round once, infinite when it does not turn."""
        angles = self.rotary.angles.abs().numpy()
        with np.errstate(divide="ignore"):
            return np.where(angles > 1e-9, 2 * np.pi / angles, np.inf)

    def add_scores(self, captured: AttentionInputs) -> None:
        """Correlate queries with keys, pair by pair: the sums over all offsets at once."""
        length = 2 * captured.queries.shape[2]
        q = torch.fft.rfft(captured.queries, n=length, dim=2)
        k = torch.fft.rfft(captured.keys, n=length, dim=2)
        both = (q * k.conj()).sum(0).cpu()[..., self.rotary.columns].sum(-1)  # (H, F, P)
        self.crossed += captured.scale * both.transpose(1, 2)

    def add_inputs(self, inputs: Tensor, scale: float) -> None:
        """Compute scores as they would be if nothing were turned."""
        queries, keys = project(inputs, self.weights.query), project(inputs, self.weights.key)
        centred = self.offsets.centre(queries @ keys.transpose(2, 3) * scale)
        self.scores += centred.sum(0).cpu()
        self.energy += torch.linalg.vector_norm(centred, dim=(0, 2, 3)).cpu().double().square()

    def result(self, count: int) -> tuple[Floats, Floats, Floats]:
        """Relative share without rotary (H,), its null (H,), and share by pair (H, P)."""
        mean, energy = self.scores / count, (self.energy / count).clamp(min=1e-300)
        relative = self.offsets.fit(mean)[1] / energy
        null = self.offsets.fit(self.offsets.shuffled(mean))[1] / energy
        length = len(self.offsets.visible)
        sums = torch.fft.irfft(self.crossed, n=2 * length, dim=2) / count  # offsets 0, 1, …, −1
        sums = torch.cat((sums[..., length + 1 :], sums[..., :length]), 2)  # (H, P, O)
        pairs = length - torch.arange(1 - length, length).abs()
        seen = (self.offsets.counts > 0) & (pairs >= length // 4)  # few pairs, much noise
        profile = (sums / pairs)[..., seen]
        spread = profile.var(-1, correction=0)
        share = spread / spread.sum(1, keepdim=True).clamp(min=1e-300)
        return relative.numpy(), null.numpy(), share.numpy()
