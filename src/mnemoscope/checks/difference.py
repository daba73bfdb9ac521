"""How far apart two sets of logits are, and how far they may be.

A difference is relative to the range of the reference's logits, so that it means the same for
every model. Shapes: B rows, T tokens, V words.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

# Rounding of a sum of products, in units of the last place, and how much of the noise that was
# measured two ways of computing the same may differ by: each has it, and the largest is taken.
# Where noise cannot be measured, more units are allowed.
UNITS, NOISE, UNKNOWN = 64.0, 128.0, 1024.0
# More than this of the range is no rounding, whatever the dtype.
MOST = 0.1
# Models whose weights in double precision would need more bytes are not computed in it.
MOST_BYTES = 4 << 30


@dataclass(frozen=True)
class Difference:
    """The largest relative difference, and the first place where it exceeds the tolerance."""

    largest: float
    row: int | None = None
    token: int | None = None

    @property
    def where(self) -> str:
        """The first place, in words."""
        return "" if self.token is None else f"row {self.row}, token {self.token}"


def compared(found: Tensor, wanted: Tensor, tolerance: float, offset: int = 0) -> Difference:
    """Logits (B, T, V) against the reference's; the first token is number ``offset`` of the text.

    What is not a number differs infinitely.
    """
    if found.shape != wanted.shape:
        return Difference(math.inf, 0, offset)
    found, wanted = found.double(), wanted.double()
    apart = (found - wanted).abs().nan_to_num(nan=math.inf, posinf=math.inf) / spread(wanted)
    # Where both are minus infinity, as of tokens that a model forbids, they are the same.
    apart = apart.masked_fill(found == wanted, 0).amax(-1)
    largest = float(apart.max())
    over = (apart > tolerance).nonzero()
    if largest <= tolerance or not len(over):
        return Difference(largest)
    row, token = min(over.tolist(), key=lambda place: (place[1], place[0]))
    return Difference(largest, row, token + offset)


def spread(logits: Tensor) -> float:
    """The range of finite logits."""
    finite = logits[logits.isfinite()]
    return max(float(finite.max() - finite.min()), 1e-30) if finite.numel() else 1.0


def tolerance(dtype: torch.dtype, depth: int, noise: float | None) -> float:
    """What may differ by rounding: errors of layers add up like a random walk, hence the root.

    ``noise`` is the difference from the same model in double precision, None when unknown.
    """
    units = UNKNOWN if noise is None else UNITS
    expected = units * torch.finfo(dtype).eps * math.sqrt(max(depth, 1))
    return min(max(expected, NOISE * (noise or 0.0)), MOST)


def in_dtype(model: nn.Module, dtype: torch.dtype) -> nn.Module | None:
    """A copy of a model in another precision, None when it would be too large."""
    count = sum(weight.numel() for weight in model.parameters())
    size = torch.finfo(dtype).bits // 8
    return None if count * size > MOST_BYTES else copy.deepcopy(model).to(dtype)
