"""Whether torch's fused recurrent kernels exist for the numbers at hand.

On processors without AVX-512, oneDNN has no LSTM for bfloat16, and torch under autocast raises
instead of taking another way.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import torch
from torch import nn

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
