"""Waves along positions: spectra of what places hold whatever is read there.

Shapes: B texts, T positions, D width of a place, F frequencies, W windows.
The conventions (window, detrending, scale) are those of `mnemoscope.lenses.positions.fourier`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.lenses.positions.fourier import (
    band_names,
    band_shares,
    centres,
    frequencies,
    peak,
    spectra,
    window_size,
)
from mnemoscope.lenses.positions.means import PositionMeans
from mnemoscope.plots.figure import Series, heatmap, lines

if TYPE_CHECKING:
    import plotly.graph_objects as go

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SpectrumResult:
    """Spectra of S places over F frequencies, in cycles per token.

    amplitude   (D, F) by place: of the mean over texts, column by column, root mean square over
                windows; a sine of amplitude a shows as a
    power       (S, F) summed over columns, the product of two halves of the texts: what words
                leave in a mean cancels, so it can fall below zero
    words       (S, F) power of single texts less that of the means: the word control
    null        (S, F) power with positions shuffled
    windows     (S, W, F) power by window, and where windows stand in ``centres``
    peak, sharpness       (S,) the strongest frequency, and how many times the mean power it is
    sharpness_null        (S, shuffles) the same with positions shuffled
    words_sharpness       (S,) the same for the words
    share       (S,) share of all variance that positions explain: without it a peak is noise
    bands       (S, bands) shares of the power by period in tokens, named in ``band_names``
    """

    sites: tuple[str, ...]
    texts: int
    positions: int
    window: int
    frequencies: Floats
    amplitude: dict[str, Floats]
    power: Floats
    words: Floats
    null: Floats
    windows: Floats
    centres: Floats
    peak: Floats
    sharpness: Floats
    sharpness_null: Floats
    words_sharpness: Floats
    share: Floats
    bands: Floats

    @property
    def band_names(self) -> list[str]:
        """Periods in tokens."""
        return band_names()

    def drift(self) -> Floats:
        """The strongest frequency in every window, (S, W): it need not stay the same."""
        return np.array([[peak(w, self.frequencies)[0] for w in one] for one in self.windows])

    def table(self) -> list[dict[str, str | int | float]]:
        """One row per place."""
        return [
            {
                "site": site,
                "peak": float(self.peak[s]),
                "period": float(1 / self.peak[s]),
                "sharpness": float(self.sharpness[s]),
                "shuffled": float(self.sharpness_null[s].mean()),
                "words": float(self.words_sharpness[s]),
                "share of variance": float(self.share[s]),
                **{
                    f"period {name}": float(self.bands[s, b])
                    for b, name in enumerate(self.band_names)
                },
                "texts": self.texts,
            }
            for s, site in enumerate(self.sites)
        ]

    def figure(self, site: str) -> go.Figure:
        """Power of one place beside words and shuffled positions, each as a share of its sum."""
        place = self._place(site)
        named = {"positions": self.power, "words": self.words, "shuffled positions": self.null}
        series = []
        for name, values in named.items():
            power = np.maximum(values[place], 0)
            series.append(Series(name, self.frequencies, power / max(power.sum(), 1e-300)))
        return lines(series, "cycles per token", "share of power")

    def heatmap(self, site: str, most: int = 64) -> go.Figure:
        """Dimension × frequency of one place, the strongest dimensions first."""
        self._place(site)
        values = self.amplitude[site]
        order = np.argsort(-values.max(1), kind="stable")[:most]
        names = [f"{one:.3f}" for one in self.frequencies]
        return heatmap(
            values[order], names, order.tolist(), "cycles per token", "dimension", "amplitude"
        )

    def _place(self, site: str) -> int:
        if site not in self.sites:
            raise UserError(f"nothing was seen at {site!r}; {suggestion(site, self.sites)}")
        return self.sites.index(site)


class Spectrum:
    """Look for waves: ``observe`` places laid out by position, then ``result``.

    ``window`` positions are looked at together, all of them when there are fewer; ``frequencies``
    asks for at least so many frequencies, and so for windows long enough.
    """

    def __init__(
        self, *, window: int = 64, frequencies: int | None = None, shuffles: int = 10
    ) -> None:
        if shuffles < 1 or (frequencies is not None and frequencies < 1):
            raise UserError("shuffles and frequencies must be at least 1")
        self.window, self.frequencies, self.shuffles = window, frequencies, shuffles
        self.means: dict[str, PositionMeans] = {}
        self.words: dict[str, Tensor] = {}
        self._batches = 0

    def observe(self, seen: Mapping[str, Tensor]) -> None:
        """Take in what `mnemoscope.activations.fixed_length.lay` gives: (B, T, D) by place."""
        for site, values in seen.items():
            if site not in self.means:
                if self._batches:
                    raise UserError(f"{site} was not seen before: places must stay the same")
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
        places = frequencies(self.size)
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
            peaks.append(peak(power, places))
            words_sharpness.append(peak(words, places)[1])
            rows["power"].append(power)
            rows["words"].append(words)
            rows["null"].append(np.mean(shuffled, 0))
            rows["windows"].append(windows)
            rows["sharpness_null"].append(np.array([peak(one, places)[1] for one in shuffled]))
            rows["bands"].append(band_shares(power, places))
        first = next(iter(self.means.values()))
        positions = len(first.mean())
        return SpectrumResult(
            sites=tuple(self.means),
            texts=first.count,
            positions=positions,
            window=self.size,
            frequencies=places,
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
