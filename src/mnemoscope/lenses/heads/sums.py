"""What the lens on heads keeps of a layer while texts go by.

Shapes: B texts, H heads, T positions, E width of a head, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.activations.attention_inputs import AttentionInputs
from mnemoscope.activations.weights import HeadWeights
from mnemoscope.lenses.heads.offsets import Offsets
from mnemoscope.lenses.heads.rotary import RotarySums
from mnemoscope.lenses.positions.means import PositionMeans


class LayerSums:
    """Running sums of one layer: O(H T²) numbers, however many texts are read."""

    def __init__(
        self, first: AttentionInputs, offsets: Offsets, weights: HeadWeights | None
    ) -> None:
        heads, length = first.queries.shape[1:3]
        self.offsets, self.scale, self.bias = offsets, first.scale, first.bias
        self.heads, self.shared = heads, first.shared
        self.queries, self.keys, self.inputs = PositionMeans(), PositionMeans(), PositionMeans()
        self.scores = torch.zeros(heads, length, length, dtype=torch.float64)
        self.attention = torch.zeros_like(self.scores)
        self.energy = torch.zeros(heads, dtype=torch.float64)
        self.rotary = None
        if weights is not None and weights.rotary is not None:
            self.rotary = RotarySums(weights, offsets)

    def add_scores(self, captured: AttentionInputs) -> None:
        """Take in queries and keys of one batch."""
        self.queries.add(captured.queries.transpose(1, 2).flatten(2))
        self.keys.add(captured.keys.transpose(1, 2).flatten(2))
        scores = captured.scores()
        self.attention += captured.attention(scores).sum(0).cpu()
        centred = self.offsets.centre(scores)
        self.scores += centred.sum(0).cpu()
        self.energy += torch.linalg.vector_norm(centred, dim=(0, 2, 3)).cpu().double().square()
        if self.rotary is not None:
            self.rotary.add_scores(captured)

    def add_inputs(self, inputs: Tensor) -> None:
        """Take in what queries and keys were made from, (B, T, D)."""
        self.inputs.add(inputs)
        if self.rotary is not None:
            self.rotary.add_inputs(inputs, self.scale)

    def mean(self, kind: str) -> Tensor:
        """Mean queries or keys by position, (H, T, E)."""
        whole = (self.queries if kind == "q" else self.keys).mean()
        return whole.view(len(whole), self.heads, -1).transpose(0, 1)

    def variance(self, kind: str) -> Tensor:
        """Variance of queries or keys over all tokens, summed over the columns of a head, (H,)."""
        whole = self.queries if kind == "q" else self.keys
        return whole.variances().view(self.heads, -1).sum(1)

    def halves(self, kind: str) -> Tensor:
        """The same of two halves of the texts, (2, H, T, E)."""
        both = (self.queries if kind == "q" else self.keys).halves()
        return both.view(*both.shape[:2], self.heads, -1).transpose(1, 2)
