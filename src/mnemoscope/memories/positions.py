"""How a token knows where it stands: sinusoidal, learned, rotary, or not at all.

Shapes: B rows, T tokens, D width, E width of a head.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

# cos and sin, each (B, 1, T, E): what rotary positions hand to the attention layers
Rotation = tuple[Tensor, Tensor]
STRETCH = 1024  # so many tokens float32 can turn by with an error below 1e-4
LOG_BASE = 9.210340371976184  # of 10000


class Positions(nn.Module):
    """Adds positions to vectors, or hands a rotation to the layers, by ``kind``."""

    def __init__(self, kind: str, width: int, *, context: int = 0, head: int = 0) -> None:
        super().__init__()
        self.kind, self.width, self.head = kind, width, head
        if kind == "learned":
            self.table = nn.Embedding(context, width)
            nn.init.normal_(self.table.weight, std=0.1 * width**-0.5)

    def forward(self, vectors: Tensor, positions: Tensor) -> tuple[Tensor, Rotation | None]:
        """vectors (B, T, D), positions (B, T) -> vectors with positions, rotation if rotary."""
        if self.kind == "learned":
            return vectors + self.table(positions), None
        if self.kind == "sinusoidal":
            # Vaswani 2017, §3.4: scaled so that words are not drowned by waves of amplitude one.
            return vectors * self.width**0.5 + waves(positions, self.width, vectors.dtype), None
        return vectors, rotation(positions, self.head, vectors.dtype)


def angles(positions: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """positions · 10000^(−2i/size) for the pairs i, up to whole turns: (…, size / 2).

    float32 counts to 2²⁴, and angles are wrong long before. So float64 turns by whole stretches of
    tokens, and float32 only by those after the last of them: to 1e-4 the angles are right anywhere,
    and those of a stream's first tokens are bit for bit what version 0.1 computed.
    """
    # No float64 on MPS.
    where = positions.cpu() if positions.device.type == "mps" else positions
    pairs, fall = torch.arange(0, size, 2, device=where.device), -LOG_BASE / size
    exact = torch.exp(pairs.double() * fall)
    if dtype == torch.float64:
        return where[..., None] * exact
    rest = where % STRETCH
    turns = (where - rest)[..., None] * (exact / (2 * math.pi))
    near = rest[..., None] * torch.exp(pairs.float() * fall)
    return (near + (turns - turns.floor()).float() * (2 * math.pi)).to(positions.device)


def waves(positions: Tensor, width: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Sinusoids of Vaswani 2017, §3.5: sines in even columns, cosines in odd, (B, T, D)."""
    by = angles(positions, width, dtype)
    return torch.stack((by.sin(), by.cos()), -1).flatten(-2)[..., :width].to(dtype)


def rotation(positions: Tensor, head: int, dtype: torch.dtype) -> Rotation:
    """Angles of Su 2021, for halves that turn against each other, each (B, 1, T, E)."""
    by = angles(positions[:, None], head, dtype)
    by = torch.cat((by, by), -1)
    return by.cos().to(dtype), by.sin().to(dtype)


def rotate(vectors: Tensor, by: Rotation) -> Tensor:
    """Turn vectors (B, H, T, E) by their positions."""
    first, second = vectors.chunk(2, -1)
    cos, sin = (part.to(vectors.dtype) for part in by)  # under autocast vectors are bfloat16
    return vectors * cos + torch.cat((-second, first), -1) * sin
