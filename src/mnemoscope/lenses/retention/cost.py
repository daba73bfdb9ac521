"""What reading costs: floating-point operations of matrix products, counted as they happen."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from mnemoscope.lenses.retention.result import Cost
from mnemoscope.memories.state import StreamState
from mnemoscope.models.stream import Stream


def flops(
    stream: Stream, tokens: Tensor, state: StreamState | None = None, segment: int | None = None
) -> int:
    """FLOPs of reading tokens (B, T); a multiplication and an addition are two of them."""
    # Fused kernels are opaque to the counter; without them it sees the products.
    with _plain(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        stream.read(tokens, state, segment)
    return int(counter.get_total_flops())


@contextmanager
def _plain() -> Iterator[None]:
    with warnings.catch_warnings():
        # Switching oneDNN off sets another of its flags too, and warns of that one.
        warnings.filterwarnings("ignore", message="TF32 acceleration")
        with torch.backends.mkldnn.flags(enabled=False):
            yield


def cost(stream: Stream, lengths: Sequence[int], segment: int | None = None) -> Cost:
    """Let one stream read on and on, and look at it after each of the (increasing) lengths."""
    state, read = None, 0
    carried, spent = [], []
    one = torch.zeros(1, 1, dtype=torch.long)
    for length in lengths:
        state = stream.read(one.expand(1, length - read), state, segment).state
        read = length
        carried.append(state.nbytes)
        spent.append(flops(stream, one, state))
    return Cost(tuple(lengths), tuple(carried), tuple(spent))
