"""Sparse Transformer: blocks whose heads attend to some of the earlier tokens (Child 2019).

Shapes: B rows, T tokens, D width, H heads, E = D / H.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mnemoscope.memories.heads import join, project
from mnemoscope.memories.layer import Context, Tap
from mnemoscope.memories.positions import Positions, Rotation
from mnemoscope.memories.shapes import Wanted
from mnemoscope.memories.sparse import kernels
from mnemoscope.memories.sparse.patterns import Pattern
from mnemoscope.memories.sparse.state import SparseKV, SparseState, append, attend, forget


class SparseAttention(nn.Module):
    """Multi-head attention; the heads are shared evenly by one or more patterns."""

    def __init__(
        self, width: int, heads: int, patterns: tuple[Pattern, ...], dropout: float
    ) -> None:
        super().__init__()
        self.heads, self.patterns, self.dropout = heads, patterns, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.queries, self.keys = Tap(), Tap()
        self.maps = Tap()  # weights (B, H, T, T), where a lens can see them

    @property
    def wants(self) -> Wanted:
        """The state that it can continue from."""
        sizes = {"H": self.heads // len(self.patterns), "E": self.out.in_features // self.heads}
        groups = (Wanted(SparseKV, sizes),) * len(self.patterns)
        return Wanted(SparseState, inside={"groups": groups})

    def forward(
        self, vectors: Tensor, state: SparseState | None, context: Context
    ) -> tuple[Tensor, SparseState]:
        """vectors (B, T, D) -> output (B, T, D), and what may be attended to again."""
        queries, keys, values = project(self, vectors, context.rotation)
        positions, count = _positions(vectors, state, context.mask)
        if self.maps.watched and state is None and context.mask is None:
            self.maps(self._weights(queries, keys))
        outputs, groups = [], []
        share = self.heads // len(self.patterns)
        for number, pattern in enumerate(self.patterns):
            some = slice(number * share, (number + 1) * share)
            asked, key, value = queries[:, some], keys[:, some], values[:, some]
            memory = append(state.groups[number] if state else None, key, value, positions)
            dropout = self.dropout if self.training else 0.0
            if state is None:
                outputs.append(_attend(asked, key, value, pattern, context.mask, dropout))
            else:
                outputs.append(attend(asked, memory, pattern, dropout))
            groups.append(forget(memory, pattern, count))
        joined = outputs[0] if len(outputs) == 1 else torch.cat(outputs, 1)
        vectors = self.out(join(joined))
        return vectors, SparseState(tuple(groups), count)

    def _weights(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Attention map: how much every token attends to every other, (B, H, T, T)."""
        scores: Tensor = queries @ keys.transpose(2, 3) * queries.shape[3] ** -0.5
        masks = [torch.from_numpy(p.mask(queries.shape[2])) for p in self.patterns]
        hidden = ~torch.stack(masks).to(scores.device)
        hidden = hidden.repeat_interleave(self.heads // len(masks), 0)
        return scores.masked_fill(hidden, -torch.inf).softmax(-1)


def _positions(
    vectors: Tensor, state: SparseState | None, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Position of each token in its row's stream, (B, T) from 1, 0 for padding; and the count."""
    batch, length = vectors.shape[:2]
    device = vectors.device
    count = torch.zeros(batch, dtype=torch.long, device=device) if state is None else state.count
    if mask is None:
        return count[:, None] + torch.arange(1, length + 1, device=device), count + length
    return (count[:, None] + mask.cumsum(1)) * mask, count + mask.sum(1)


def _attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    pattern: Pattern,
    mask: Tensor | None,
    dropout: float,
) -> Tensor:
    """Attention within one segment; padding takes no place, so it moves behind all tokens."""
    if mask is None:
        return kernels.attend(queries, keys, values, pattern, dropout)
    order = torch.argsort((~mask).to(torch.uint8), dim=1, stable=True)
    where = order[:, None, :, None].expand_as(queries)
    queries, keys, values = (x.gather(2, where) for x in (queries, keys, values))
    output = kernels.attend(queries, keys, values, pattern, dropout)
    return torch.zeros_like(output).scatter(2, where, output)


class AxisPositions(Positions):
    """A learned vector for each axis, added up: row and column of text, or of an image."""

    def __init__(self, width: int, axes: tuple[int, ...]) -> None:
        super().__init__("axes", width)
        self.axes = axes
        tables = [nn.Embedding(size, width) for size in axes]
        for table in tables:
            nn.init.normal_(table.weight, std=0.1 * (width * len(axes)) ** -0.5)
        self.tables = nn.ModuleList(tables)

    def forward(self, vectors: Tensor, positions: Tensor) -> tuple[Tensor, Rotation | None]:
        """vectors (B, T, D), positions (B, T) -> vectors with those of their axes."""
        for size, table in zip(reversed(self.axes), reversed(self.tables), strict=True):
            vectors = vectors + table(positions % size)
            positions = positions // size
        return vectors, None
