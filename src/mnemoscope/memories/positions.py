"""How a token knows where it stands: sinusoidal, learned, rotary, or not at all.

Shapes: B rows, T tokens, D width, E width of a head.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

# cos and sin, each (B, 1, T, E): what rotary positions hand to the attention layers
Rotation = tuple[Tensor, Tensor]


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
            return vectors * self.width**0.5 + waves(positions, self.width).to(vectors.dtype), None
        return vectors, rotation(positions, self.head, vectors.dtype)


def frequencies(size: int, device: torch.device) -> Tensor:
    """10000^(−2i/size) for the pairs i, (size / 2,), in float32."""
    pairs = torch.arange(0, size, 2, dtype=torch.float32, device=device)
    return torch.exp(pairs * (-9.210340371976184 / size))


def waves(positions: Tensor, width: int) -> Tensor:
    """Sinusoids of Vaswani 2017, §3.5: sines in even columns, cosines in odd, (B, T, D)."""
    angles = positions[..., None] * frequencies(width, positions.device)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)[..., :width]


def rotation(positions: Tensor, head: int, dtype: torch.dtype) -> Rotation:
    """Angles of Su 2021, for halves that turn against each other, each (B, 1, T, E)."""
    angles = positions[:, None, :, None] * frequencies(head, positions.device)
    angles = torch.cat((angles, angles), -1)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(vectors: Tensor, by: Rotation) -> Tensor:
    """Turn vectors (B, H, T, E) by their positions."""
    first, second = vectors.chunk(2, -1)
    cos, sin = (part.to(vectors.dtype) for part in by)  # under autocast vectors are bfloat16
    return vectors * cos + torch.cat((-second, first), -1) * sin
