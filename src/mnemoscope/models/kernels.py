"""Whether torch's fused recurrent kernels exist here, and the same by our cells where they do not.

On processors without AVX-512, oneDNN has no LSTM for bfloat16, and torch under autocast raises
instead of taking another way. Shapes: B rows, T steps, I input width, D width.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnemoscope.memories.recurrent import Cell, Weights, scan

# These exist wherever torch does.
CERTAIN = (torch.float32, torch.float64)


def fuses(kernel: nn.RNNBase) -> bool:
    """Whether torch can run a kernel as things are now: its device, its weights, autocast."""
    weight: Any = kernel.weight_ih_l0
    kind: Any = type(kernel)
    device = weight.device.type
    low = None
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        low = torch.get_autocast_dtype(device)
    if low is None and weight.dtype in CERTAIN:
        return True
    return _runs(kind, weight.dtype, device, low)


@cache
def _runs(kind: Any, dtype: torch.dtype, device: str, low: torch.dtype | None) -> bool:
    """Decide once per process, by running it."""
    # A thread of its own knows no `no_grad`, autocast or counter of operations from around here.
    with ThreadPoolExecutor(1) as aside:
        return aside.submit(_try, kind, dtype, device, low).result()


def _try(kind: Any, dtype: torch.dtype, device: str, low: torch.dtype | None) -> bool:
    # Drawing its weights must not move what a run draws next.
    with torch.random.fork_rng(devices=[]):
        kernel = kind(2, 2, batch_first=True)
    kernel.to(device, dtype)
    vectors = torch.zeros(2, 2, 2, device=device, dtype=dtype)
    try:
        with torch.autocast(device, low, enabled=low is not None):
            with torch.no_grad():
                kernel(vectors)
            outputs = kernel(vectors)[0]
        torch.autograd.backward(outputs.float().sum())
    except torch.OutOfMemoryError:  # says nothing about the kernel
        raise
    except RuntimeError:
        return False
    return True


def weights_of(kernel: nn.RNNBase, layer: int = 0, backwards: bool = False) -> Weights:
    """A layer's four arrays under their names here."""
    end = f"_l{layer}{'_reverse' if backwards else ''}"
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return Weights(*(getattr(kernel, name + end) for name in names))


def unfused(
    cell: Cell, kernel: nn.RNNBase, vectors: Tensor, mask: Tensor | None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """What a kernel finds, step by step: all its layers, both ways, dropout between layers.

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
