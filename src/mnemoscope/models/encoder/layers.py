"""The layers of "Attention is all you need" that read a sentence whole (Vaswani 2017).

Shapes: B rows, S words, D width, H heads, E = D / H.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mnemoscope.memories.heads import join, project, softmax_attention
from mnemoscope.memories.layer import Tap
from mnemoscope.memories.positions import Rotation
from mnemoscope.models.encoder.config import EncoderStack


class FullAttention(nn.Module):
    """Every word attends to every other, later ones too unless ``causal``."""

    def __init__(self, config: EncoderStack, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.dropout, self.causal = config.heads, config.dropout, causal
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)
        self.queries, self.keys = Tap(), Tap()

    def forward(
        self, vectors: Tensor, mask: Tensor | None, rotation: Rotation | None = None
    ) -> Tensor:
        """vectors (B, S, D), mask (B, S) -> output (B, S, D)."""
        output = softmax_attention(
            *project(self, vectors, rotation),
            self._visible(mask),
            dropout=self.dropout if self.training else 0.0,
            causal=self.causal and mask is None,
        )
        projected: Tensor = self.out(join(output))
        return projected

    def _visible(self, mask: Tensor | None) -> Tensor | None:
        """Which words each may attend to, (B, 1, 1 or S, S)."""
        if mask is None or not self.causal:
            return None if mask is None else mask[:, None, None]
        length = mask.shape[1]
        past = torch.ones(length, length, dtype=torch.bool, device=mask.device).tril()
        # A word always sees itself, or what is hidden at the start would be NaN.
        itself = torch.eye(length, dtype=torch.bool, device=mask.device)
        return (past & mask[:, None, None]) | itself


class Part(nn.Module):
    """What surrounds attention and feed-forward alike: a sum, a norm before or after, dropout."""

    def __init__(self, config: EncoderStack) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.width)
        self.before, self.dropout = config.norm == "pre", config.dropout

    def enter(self, vectors: Tensor) -> Tensor:
        """What the part works on."""
        return self.norm(vectors) if self.before else vectors

    def leave(self, vectors: Tensor, output: Tensor) -> Tensor:
        """Its output, added to what there was."""
        if self.training and self.dropout:
            output = F.dropout(output, self.dropout)
        return vectors + output if self.before else self.norm(vectors + output)


class FeedForward(nn.Module):
    """W₂ max(0, W₁ x + b₁) + b₂ (Vaswani 2017, eq. 2)."""

    def __init__(self, config: EncoderStack) -> None:
        super().__init__()
        self.expand = nn.Linear(config.width, config.mlp_ratio * config.width)
        self.contract = nn.Linear(config.mlp_ratio * config.width, config.width)

    def forward(self, vectors: Tensor) -> Tensor:
        """vectors (B, T, D) -> (B, T, D)."""
        output: Tensor = self.contract(F.relu(self.expand(vectors)))
        return output


class EncoderLayer(nn.Module):
    """Attention over the whole source, or over its past if ``causal``; then feed-forward."""

    def __init__(self, config: EncoderStack, causal: bool = False) -> None:
        super().__init__()
        self.attention, self.around_attention = FullAttention(config, causal), Part(config)
        self.forth, self.around_forth = FeedForward(config), Part(config)

    def forward(
        self, vectors: Tensor, mask: Tensor | None, rotation: Rotation | None = None
    ) -> Tensor:
        """vectors (B, S, D) -> vectors (B, S, D)."""
        around = self.around_attention
        vectors = around.leave(vectors, self.attention(around.enter(vectors), mask, rotation))
        around = self.around_forth
        return around.leave(vectors, self.forth(around.enter(vectors)))


def read(
    layers: Iterable[nn.Module],
    vectors: Tensor,
    mask: Tensor | None,
    rotation: Rotation | None = None,
    *,
    recompute: bool,
) -> Tensor:
    """vectors (B, S, D), mask (B, S) -> vectors (B, S, D) after all layers.

    With ``recompute`` layers keep their inputs only, and compute again for the backward pass.
    """
    recompute = recompute and torch.is_grad_enabled()
    for layer in layers:
        if recompute:
            vectors = checkpoint(layer, vectors, mask, rotation, use_reentrant=False)
        else:
            vectors = layer(vectors, mask, rotation)
    return vectors
