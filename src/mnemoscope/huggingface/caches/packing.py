"""Numbers in 8, 4 or 2 bits, really packed: two or four of them in a byte.

A group of neighbours along the last axis shares a scale and a zero, each of 16 bits:
x ≈ zero + scale · code, with scale = (max − min) / (2^bits − 1) and zero = min.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.core.errors import UserError

_BYTE = 8
# Of scales and zeros, whatever the model computes in.
HALF = torch.float16


@dataclass(frozen=True)
class Packed:
    """Quantised numbers (..., N).

    codes         (..., N · bits / 8), bytes
    scale, zero   (..., N / group)
    """

    codes: Tensor
    scale: Tensor
    zero: Tensor


def pack(codes: Tensor, bits: int) -> Tensor:
    """Codes (..., N) below 2^bits as bytes (..., N · bits / 8), the first in the lowest bits."""
    each = _BYTE // bits
    parted = _parted(codes.to(torch.uint8), each)
    shifts = torch.arange(0, _BYTE, bits, device=codes.device, dtype=torch.uint8)
    # Bits of different codes never meet, so that the sum is their union.
    packed: Tensor = (parted << shifts).sum(-1, dtype=torch.uint8)
    return packed


def unpack(packed: Tensor, bits: int) -> Tensor:
    """The codes (..., N) of bytes (..., N · bits / 8)."""
    shifts = torch.arange(0, _BYTE, bits, device=packed.device, dtype=torch.uint8)
    codes: Tensor = (packed[..., None] >> shifts) & (2**bits - 1)
    return codes.flatten(-2)


def _parted(values: Tensor, size: int) -> Tensor:
    """Numbers (..., N) as groups of neighbours, (..., N / size, size)."""
    return values.reshape(*values.shape[:-1], values.shape[-1] // size, size)


def quantise(values: Tensor, bits: int, group: int) -> Packed:
    """Numbers (..., N) in so many bits each; N must be a multiple of ``group``."""
    grouped = _parted(values.float(), group)  # (..., G, group)
    low, high = grouped.aminmax(dim=-1)
    scale, zero = ((high - low) / (2**bits - 1)).to(HALF), low.to(HALF)
    if not bool(scale.isfinite().all() & zero.isfinite().all()):
        raise UserError("a cache holds numbers too large for 16 bits: it cannot be quantised")
    # A group of one number only, or of a range that is nothing in half precision.
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    # Of the rounded scale and zero, which are those that the numbers are made of again.
    codes = ((grouped - zero.float()[..., None]) / scale.float()[..., None]).round()
    return Packed(pack(codes.clamp(0, 2**bits - 1).flatten(-2), bits), scale, zero)


def dequantise(packed: Packed, bits: int, group: int, dtype: torch.dtype) -> Tensor:
    """The numbers (..., N) that `quantise` was given, as far as they are held."""
    codes = _parted(unpack(packed.codes, bits).float(), group)
    found: Tensor = packed.zero.float()[..., None] + packed.scale.float()[..., None] * codes
    return found.flatten(-2).to(dtype)
