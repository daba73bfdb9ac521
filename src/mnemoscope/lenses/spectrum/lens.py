"""Waves along positions: spectra of what sites hold whatever is read there.

Shapes: B texts, T positions, D width of a site, F frequencies, W windows.
The conventions (window, detrending, scale) are those of `mnemoscope.lenses.positions.fourier`.
"""

from __future__ import annotations

from collections.abc import Mapping

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
        cycles = frequencies(self.size)
        rows: dict[str, list[Floats]] = {
            name: [] for name in ("power", "words", "null", "windows", "sharpness_null", "bands")
        }
        amplitude, peaks, words_sharpness = {}, [], []
        generator = torch.Generator().manual_seed(0)
        for site, means in self.means.items():
            halves = means.halves()
            both = spectra(halves, self.size)  # (2, W, F, D)
            windows = (both[0].conj() * both[1]).real.sum(-1).numpy()
            whole = spectra(means.mean(), self.size)
            amplitude[site] = whole.abs().square().mean(0).sqrt().T.numpy()
            words = (self.words[site] / self._batches - _power(whole)).numpy()
            shuffled = []
            for _ in range(self.shuffles):
                order = torch.randperm(halves.shape[1], generator=generator)
                mixed = spectra(halves[:, order], self.size)
                shuffled.append((mixed[0].conj() * mixed[1]).real.sum(-1).mean(0).numpy())
            power = windows.mean(0)
            peaks.append(peak(power, cycles))
            words_sharpness.append(peak(words, cycles)[1])
            rows["power"].append(power)
            rows["words"].append(words)
            rows["null"].append(np.mean(shuffled, 0))
            rows["windows"].append(windows)
            rows["sharpness_null"].append(np.array([peak(one, cycles)[1] for one in shuffled]))
            rows["bands"].append(band_shares(power, cycles))
        first = next(iter(self.means.values()))
        positions = len(first.mean())
        return SpectrumResult(
            sites=tuple(self.means),
            texts=first.count,
            positions=positions,
            window=self.size,
            frequencies=cycles,
            amplitude=amplitude,
            centres=centres(positions, self.size),
            peak=np.array([one for one, _ in peaks]),
            sharpness=np.array([one for _, one in peaks]),
            words_sharpness=np.array(words_sharpness),
            share=np.array([means.share() for means in self.means.values()]),
            **{name: np.array(values) for name, values in rows.items()},
        )


def _power(found: Tensor) -> Tensor:
    """Mean over windows, sum over columns, of (W, F, D): (F,)."""
    return found.abs().square().sum(-1).mean(0)
