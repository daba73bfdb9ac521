"""What a site holds at a position whatever is read there: means over many texts.

Shapes: B texts of a batch, T positions, D width of a site.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.core.errors import UserError


class PositionMeans:
    """Sums by position over two halves of the texts, in float64.

    A mean over n texts still holds 1/n of the words' variance. The halves read different words, so
    what both have in common is no word: products of one half with the other are free of that bias.
    """

    def __init__(self) -> None:
        self.sums: Tensor | None = None  # (2, T, D)
        self.squares: Tensor | None = None  # (T, D)
        self.counts = [0, 0]

    def add(self, values: Tensor) -> None:
        """Take in texts (B, T, D); they go to the halves in turn."""
        values = values.detach()
        if self.sums is None or self.squares is None:
            self.sums = torch.zeros(2, *values.shape[1:], dtype=torch.float64)
            self.squares = torch.zeros(values.shape[1:], dtype=torch.float64)
        if values.shape[1:] != self.sums.shape[1:]:
            raise UserError(
                f"texts must have one length: {values.shape[1]} positions after "
                f"{self.sums.shape[1]}"
            )
        turn = sum(self.counts) % 2
        for half in (0, 1):
            mine = values[(half - turn) % 2 :: 2]
            self.sums[half] += mine.sum(0).cpu()
            self.counts[half] += len(mine)
        self.squares += values.square().sum(0).cpu()

    @property
    def count(self) -> int:
        """Texts seen."""
        return sum(self.counts)

    def halves(self) -> Tensor:
        """Means of both halves, (2, T, D)."""
        if self.sums is None or min(self.counts) < 1:
            raise UserError("at least two texts are needed to tell positions from words")
        return self.sums / torch.tensor(self.counts, dtype=torch.float64)[:, None, None]

    def mean(self) -> Tensor:
        """Mean over all texts, (T, D)."""
        self.halves()
        assert self.sums is not None
        return self.sums.sum(0) / self.count

    def variances(self) -> Tensor:
        """Variance of all vectors around their common mean, by dimension, (D,)."""
        mean = self.mean()
        assert self.squares is not None
        return self.squares.mean(0) / self.count - mean.mean(0).square()

    def total(self) -> float:
        """The same, summed over dimensions."""
        return float(self.variances().sum())

    def share(self) -> float:
        """Share of the variance that positions explain, without what words leave in the means."""
        first, second = (half - half.mean(0) for half in self.halves())
        return float((first * second).mean(0).sum()) / max(self.total(), 1e-300)
