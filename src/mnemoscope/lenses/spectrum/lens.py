"""Waves along positions: spectra of what sites hold whatever is read there.

Shapes: B texts, T positions, D width of a site, F frequencies, W windows.
The conventions (window, detrending, scale) are those of `mnemoscope.lenses.positions.fourier`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.fixed_length import lay
from mnemoscope.core.arrays import Floats
from mnemoscope.core.errors import UserError
from mnemoscope.lenses.inputs import FixedLength, FixedLengthLens
from mnemoscope.lenses.positions.fourier import spectra
from mnemoscope.lenses.positions.frequencies import (
    band_shares,
    centres,
    frequencies,
    peak,
    window_size,
)
from mnemoscope.lenses.positions.means import PositionMeans
from mnemoscope.lenses.spectrum.result import SpectrumOptions, SpectrumResult


class Spectrum(FixedLengthLens):
    """Look for waves: ``observe`` sites laid out by position, then ``result``.

    ``window`` positions are looked at together, all of them when there are fewer; ``frequencies``
    asks for at least so many frequencies, and so for windows long enough.
    """

    title = "Spectrum"
    question = "Which waves along positions do the layers of {models} hold, whatever they read?"
    Options, Result = SpectrumOptions, SpectrumResult

    def __init__(
        self, *, window: int = 64, frequencies: int | None = None, shuffles: int = 10
    ) -> None:
        if shuffles < 1 or (frequencies is not None and frequencies < 1):
            raise UserError("shuffles and frequencies must be at least 1")
        self.window, self.frequencies, self.shuffles = window, frequencies, shuffles
        self.means: dict[str, PositionMeans] = {}
        self.words: dict[str, Tensor] = {}
        self._batches = 0

    def read(self, given: FixedLength, options: SpectrumOptions) -> None:
        """Capture the model batch by batch."""
        fixed = given.cut()
        for tokens in fixed.batches(8):
            self.observe(lay(given.reader, tokens, fixed.kept, list(options.sites)))

    def observe(self, seen: Mapping[str, Tensor]) -> None:
        """Take in what `mnemoscope.activations.fixed_length.lay` gives: (B, T, D) by site."""
        for site, values in seen.items():
            if site not in self.means:
                if self._batches:
                    raise UserError(f"{site} was not seen before: sites must stay the same")
                self.size = window_size(values.shape[1], self.window, self.frequencies)
                self.means[site] = PositionMeans()
                self.words[site] = torch.zeros(len(frequencies(self.size)), dtype=torch.float64)
            self.means[site].add(values)
            # One text of every batch shows what single texts have; all of them would cost more
            # than reading does.
            self.words[site] += _power(spectra(values[0].cpu().double(), self.size))
        self._batches += 1

    def result(self) -> SpectrumResult:
        """What was seen so far."""
        if not self.means:
            raise UserError("nothing was observed yet: call observe(seen) for every batch first")
        generator = torch.Generator().manual_seed(0)
        found = [self._site(site, generator) for site in self.means]
        amplitude = [one.pop("amplitude") for one in found]
        first = next(iter(self.means.values()))
        positions = len(first.mean())
        return SpectrumResult(
            sites=tuple(self.means),
            texts=first.count,
            positions=positions,
            window=self.size,
            frequencies=frequencies(self.size),
            amplitude=dict(zip(self.means, amplitude, strict=True)),
            centres=centres(positions, self.size),
            **{name: np.array([one[name] for one in found]) for name in found[0]},
        )

    def _site(self, site: str, generator: torch.Generator) -> dict[str, Any]:
        """What one site has of the fields of `SpectrumResult`."""
        cycles, means = frequencies(self.size), self.means[site]
        halves = means.halves()
        windows = _common(halves, self.size)
        whole = spectra(means.mean(), self.size)
        words = (self.words[site] / self._batches - _power(whole)).numpy()
        orders = [
            torch.randperm(halves.shape[1], generator=generator) for _ in range(self.shuffles)
        ]
        shuffled = [_common(halves[:, order], self.size).mean(0) for order in orders]
        power = windows.mean(0)
        highest, sharpness = peak(power, cycles)
        return {
            "amplitude": whole.abs().square().mean(0).sqrt().T.numpy(),
            "power": power,
            "words": words,
            "null": np.mean(shuffled, 0),
            "windows": windows,
            "peak": highest,
            "sharpness": sharpness,
            "sharpness_null": [peak(one, cycles)[1] for one in shuffled],
            "words_sharpness": peak(words, cycles)[1],
            "share": means.share(),
            "bands": band_shares(power, cycles),
        }


def _common(halves: Tensor, size: int) -> Floats:
    """Power (W, F) that both of (2, T, D) have, summed over columns."""
    first, second = spectra(halves, size)  # (W, F, D) each
    found: Floats = (first.conj() * second).real.sum(-1).numpy()
    return found


def _power(found: Tensor) -> Tensor:
    """Mean over windows, sum over columns, of (W, F, D): (F,)."""
    return found.abs().square().sum(-1).mean(0)
