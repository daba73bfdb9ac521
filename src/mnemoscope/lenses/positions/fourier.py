"""Spectra along positions. Every convention of the lenses on waves is here and in `frequencies`.

Shapes: T positions, C columns, W windows, F frequencies.

A signal is cut into windows of S positions that overlap by half. In each window its straight line
is taken off and it is faded in and out (Hann). Amplitudes are scaled so that a sine of amplitude a
shows as a, and so does cos πt, the fastest there is: at half a cycle per token both sides of the
spectrum are one bin, so it is not doubled as the others are. (Fading lends as much to the bin below
it: of a period of 2, one of 2 S / (S − 2) cannot be told.) Frequencies are in cycles per token:
0.25 is a period of four tokens. The two lowest (none, and one cycle per window) are left out: there
a wave cannot be told from a slope.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.lenses.positions.frequencies import LOWEST


def spectra(signal: Tensor, size: int, finer: int = 1) -> Tensor:
    """signal (…, T, C) -> complex amplitudes (…, W, F, C), ``finer`` times as many F."""
    parts = signal.unfold(-2, size, max(1, size // 2)).transpose(-1, -2)  # (…, W, S, C)
    ramp = torch.linspace(-1, 1, size, dtype=signal.dtype, device=signal.device)
    slope = (parts * ramp[:, None]).sum(-2, keepdim=True) / ramp.square().sum()
    parts = parts - parts.mean(-2, keepdim=True) - slope * ramp[:, None]
    fade = torch.hann_window(size, periodic=False, dtype=signal.dtype, device=signal.device)
    found: Tensor = torch.fft.rfft(parts * fade[:, None], n=size * finer, dim=-2)
    found = found[..., LOWEST * finer :, :] * (2 / float(fade.sum()))
    if size * finer % 2 == 0:
        found[..., -1, :] /= 2
    return found


def only_band(signal: Tensor, low: float, high: float) -> Tensor:
    """The part of signal (…, T, C) with low ≤ frequency < high, in cycles per token; real.

    An ideal filter on all positions at once; the mean belongs to no band.
    """
    length = signal.shape[-2]
    found = torch.fft.rfft(signal, dim=-2)
    cycles = torch.arange(found.shape[-2], device=signal.device) / length
    # The mean is not part of a wave, and one half belongs to the highest band.
    inside = (cycles > 0) & (cycles >= low) & ((cycles < high) | (high >= 0.5))
    inner: Tensor = torch.fft.irfft(found * inside[:, None], n=length, dim=-2)
    return inner
