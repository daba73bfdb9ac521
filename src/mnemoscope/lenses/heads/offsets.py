"""What of a table of scores depends on nothing but how far apart two tokens are.

Shapes: T positions, O = 2T − 1 offsets. The offset is i − j: positive when row i looks back at j.
Adding the same to a whole row changes no softmax, so rows are centred first, over what is visible.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mnemoscope.core.arrays import Floats
from mnemoscope.core.errors import UserError
from mnemoscope.lenses.heads.factors import weighted_median
from mnemoscope.lenses.positions.fourier import spectra
from mnemoscope.lenses.positions.frequencies import frequencies

# A phase is divided by its frequency, so that is wanted finer than windows alone would give it.
FINER = 4


class Offsets:
    """Sums and least squares by offset, for positions that see each other as ``visible`` says."""

    def __init__(self, visible: Tensor) -> None:
        self.visible, self.complete = visible.cpu(), bool(visible.all())
        length = len(self.visible)
        if not bool(self.visible.any(1).all()):
            raise UserError("a position that sees no other has no scores")
        position = torch.arange(length)
        self.index = position[:, None] - position + length - 1  # (T, T)
        self.offsets = np.arange(1 - length, length)
        self.seen = self.visible.sum(1).double()  # (T,)
        sees = torch.zeros(length, 2 * length - 1, dtype=torch.float64)
        sees.scatter_(1, self.index, self.visible.double())
        self.counts = sees.sum(0)
        # Normal equations of: centred score ≈ f(i − j) less its mean over the row.
        normal = torch.diag(self.counts) - sees.T @ (sees / self.seen[:, None])
        self.inverse = torch.linalg.pinv(normal, hermitian=True)

    def centre(self, scores: Tensor) -> Tensor:
        """Take the mean over what is visible off every row of (…, T, T); zero elsewhere."""
        if self.complete:
            return scores - scores.mean(-1, keepdim=True)
        visible = self.visible.to(scores.device)
        scores = scores * visible
        mean = scores.sum(-1, keepdim=True) / self.seen.to(scores)[:, None]
        return (scores - mean) * visible

    def sums(self, table: Tensor) -> Tensor:
        """Sums over equal offsets of (…, T, T), what is visible only: (…, O) in float64."""
        flat = (table.cpu().double() * self.visible).flatten(-2)
        found = flat.new_zeros(*flat.shape[:-1], len(self.offsets))
        return found.index_add_(-1, self.index.flatten(), flat)

    def means(self, table: Tensor) -> Tensor:
        """Means over equal offsets, NaN where nobody sees that far."""
        return self.sums(table) / torch.where(self.counts > 0, self.counts, torch.nan)

    def fit(self, centred: Tensor) -> tuple[Tensor, Tensor]:
        """The best f(i − j) for centred (…, T, T): f (…, O), and the energy that it explains."""
        sums = self.sums(centred)
        best = sums @ self.inverse
        return best, (best * sums).sum(-1)

    def spread(self, function: Tensor) -> Tensor:
        """A function of the offset (…, O) as a table (…, T, T)."""
        return function[..., self.index]

    def softmax(self, scores: Tensor) -> Tensor:
        """Attention from scores (…, T, T)."""
        return scores.masked_fill(~self.visible, -torch.inf).softmax(-1)

    def shuffled(self, centred: Tensor, seed: int = 0) -> Tensor:
        """The same scores in every row, at positions drawn at random among what it sees."""
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.rand(*centred.shape, generator=generator)
        drawn = drawn.masked_fill(~self.visible, torch.inf)
        # The visible positions of a row, in a random order, take its visible values in turn.
        order = drawn.argsort(-1)
        first = (
            self.visible.int().argsort(dim=-1, descending=True, stable=True).expand(centred.shape)
        )
        found = torch.zeros_like(centred)
        return found.scatter_(-1, order, centred.gather(-1, first)) * self.visible


def cross_spectrum(queries: Tensor, keys: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Of (2, H, T, E) both: Σ conj(Q̂) K̂ over windows and columns, (H, F), and the most it could be.

    The first axis are means over two halves of the texts. Queries of one half are held against keys
    of the other: what words leave in means would match itself. Columns can be turned into each
    other without any change: it depends on scores only.
    """
    q, k = spectra(queries, size, FINER), spectra(keys, size, FINER)  # (2, H, W, F, E)
    cross = (q.conj() * k.flip(0)).mean(0).sum((-1, -3))
    most = [one.mean(0).abs().square().sum((-1, -3)) for one in (q, k)]
    return cross, (most[0] * most[1]).sqrt()


def lags(queries: Tensor, keys: Tensor, size: int, offsets: Floats) -> Floats:
    """The offset, among those given, at which the waves of queries and keys match best, (H,).

    The peak of Re Σ_f C(f) e^{−2πifk} over k: all frequencies together can tell offsets apart that
    a single short period cannot.
    """
    cross, _ = cross_spectrum(queries, keys, size)
    turn = 2j * np.pi * np.outer(frequencies(size, FINER), offsets)
    match = (cross.numpy() @ np.exp(-turn)).real  # (H, offsets)
    found: Floats = offsets[match.argmax(-1)]
    return found


def delays(queries: Tensor, keys: Tensor, size: int) -> tuple[Floats, Floats, Floats]:
    """How many tokens back the waves of keys lie before those of queries, both (2, H, T, E).

    Of a score cos 2πf(i − j − k) the cross-spectrum has the phase 2πfk at f. Returned are the
    median of phase / 2πf weighted by strength, (H,); the coherence Σ|C| / Σ most, (H,), one when
    queries and keys are the same waves, shifted; and the delay by frequency, (H, F). A phase is
    known up to a whole turn, so no delay is longer than half a period.
    """
    cross, most = cross_spectrum(queries, keys, size)
    cycles = torch.from_numpy(frequencies(size, FINER))
    by_frequency = (cross.angle() / (2 * torch.pi * cycles)).numpy()
    strength = cross.abs().numpy()
    total = most.sum(-1).clamp(min=1e-300).numpy()
    delay = np.array([weighted_median(d, s) for d, s in zip(by_frequency, strength, strict=True)])
    return delay, strength.sum(-1) / total, by_frequency
