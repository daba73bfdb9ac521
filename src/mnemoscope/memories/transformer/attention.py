"""Causal self-attention over a segment and the tokens before it.

Shapes: B rows, T new tokens, S tokens in the state after them, D width, H heads, E = D / H.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mnemoscope.memories.heads import join, project, softmax_attention
from mnemoscope.memories.layer import Context, Tap
from mnemoscope.memories.shapes import Wanted
from mnemoscope.memories.transformer.state import AttentionState, append


class SelfAttention(nn.Module):
    """Multi-head attention of a segment over itself and what was read before."""

    def __init__(self, width: int, heads: int, context: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.context, self.dropout = heads, context, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.queries, self.keys = Tap(), Tap()

    @property
    def wants(self) -> Wanted:
        """The state that it can continue from."""
        return Wanted(AttentionState, {"H": self.heads, "E": self.out.in_features // self.heads})

    def forward(
        self, vectors: Tensor, state: AttentionState | None, context: Context
    ) -> tuple[Tensor, AttentionState]:
        """vectors (B, T, D) -> output (B, T, D), and the state of the last tokens."""
        queries, keys, values = project(self, vectors, context.rotation)
        state = append(state, keys, values, context.mask)
        output = attend(queries, state, self.context, self.dropout if self.training else 0.0)
        vectors = self.out(join(output))
        # The next token sees itself and context − 1 before it: nothing older is needed again.
        return vectors, state.last(self.context - 1)


def attend(
    queries: Tensor, state: AttentionState, context: int | None = None, dropout: float = 0.0
) -> Tensor:
    """Softmax attention of the newest T tokens, (B, H, T, E), over the S in the state.

    Every token sees itself and those before it, at most ``context`` in all.
    """
    new, total = queries.shape[2], state.length
    beyond = context is not None and total > context
    if state.visible is None and not beyond and new in (1, total):
        causal = new == total and new > 1
        return softmax_attention(queries, state.keys, state.values, dropout=dropout, causal=causal)
    mask = torch.ones(new, total, dtype=torch.bool, device=queries.device).tril(total - new)
    if state.visible is None:
        if context is not None:
            mask = mask.triu(total - new - context + 1)
    else:
        mask = mask & state.visible[:, None, None, :]
        if context is not None and beyond:
            place = state.visible.cumsum(1)  # among the row's own tokens: padding takes no place
            near = place[:, -new:, None] - place[:, None, :] < context
            mask = mask & near[:, None]
        # A query always sees itself, so a padded row gives a number nobody reads instead of NaN.
        mask[..., total - new :] |= torch.eye(new, dtype=torch.bool, device=queries.device)
    return softmax_attention(queries, state.keys, state.values, mask, dropout=dropout)
