"""The pre-norm Transformer block around any attention.

Shapes: B rows, T tokens, D width.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnemoscope.memories.config import TransformerBase
from mnemoscope.memories.layer import Context
from mnemoscope.memories.shapes import Wanted


class Block(nn.Module):
    """x + attention(norm(x)), then + feed-forward(norm(that)).

    The attention is a layer of its own with a final projection ``out``.
    """

    def __init__(self, config: TransformerBase, attention: Any) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width)
        self.attention: Any = attention
        self.norm2 = nn.LayerNorm(config.width)
        self.expand = nn.Linear(config.width, config.inner)
        self.contract = nn.Linear(config.inner, config.width)
        self.dropout = config.dropout
        # 2·layers branches add up along the residual stream: shrink each so the sum stays near one.
        with torch.no_grad():
            for branch in (self.attention.out, self.contract):
                branch.weight /= math.sqrt(2 * config.layers)

    @property
    def wants(self) -> Wanted:
        """The state that it can continue from."""
        wanted: Wanted = self.attention.wants
        return wanted

    def forward(self, vectors: Tensor, state: Any, context: Context) -> tuple[Tensor, Any]:
        """vectors (B, T, D) -> vectors (B, T, D), state."""
        attended, state = self.attention(self.norm1(vectors), state, context)
        if context.silent:
            return vectors, state
        vectors = vectors + self._drop(attended)
        expanded = self.contract(F.gelu(self.expand(self.norm2(vectors)), approximate="tanh"))
        return vectors + self._drop(expanded), state

    def _drop(self, branch: Tensor) -> Tensor:
        # A module call that does nothing would cost as much as a layer norm per generated token.
        return F.dropout(branch, self.dropout) if self.training and self.dropout else branch
