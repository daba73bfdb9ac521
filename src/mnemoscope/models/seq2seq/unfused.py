"""What torch's fused recurrent kernels compute, by our cells, where there is no such kernel.

Shapes: B rows, T steps, I input width, D width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnemoscope.memories.recurrent import Cell, scan, weights_of


def unfused(
    cell: Cell, kernel: nn.RNNBase, vectors: Tensor, mask: Tensor | None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """What a kernel returns, step by step: all its layers, both ways, dropout between layers.

    vectors (B, T, I); mask (B, T), false in the padding at the end of a row. Returns outputs
    (B, T, ways · D), zeros in padding, and the last state's tensors (layers · ways, B, D).
    """
    last = []
    for layer in range(kernel.num_layers):
        if layer:
            vectors = F.dropout(vectors, kernel.dropout, kernel.training)
        sides = []
        for backwards in (False, True) if kernel.bidirectional else (False,):
            # From behind, padding comes first, and rows do not move in it.
            given, moves = (_flip(one) if backwards else one for one in (vectors, mask))
            assert given is not None
            start = cell.start(given.new_zeros(len(given), kernel.hidden_size))
            weights = weights_of(kernel, layer, backwards)
            outputs, state, _ = scan(cell, given, start, weights, moves)
            sides.append(outputs.flip(1) if backwards else outputs)
            last.append([tensor for _, tensor in state.tensors()])
        vectors = torch.cat(sides, -1)
        if mask is not None:
            vectors = vectors.masked_fill(~mask[..., None], 0.0)
    return vectors, tuple(torch.stack(parts) for parts in zip(*last, strict=True))


def _flip(steps: Tensor | None) -> Tensor | None:
    return None if steps is None else steps.flip(1)
