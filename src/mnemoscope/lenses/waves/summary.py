"""What a page shows of position waves, as data that goes to JSON and back. No torch.

Shapes: L layers, H heads, T positions, B bands, K shifts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.lenses.heads import summary as of_heads
from mnemoscope.lenses.heads.summary import (
    DRAWN,
    HeadsBrief,
    HeadsSummary,
    Vector,
    rounded,
    short,
)
from mnemoscope.lenses.lens import Records, records
from mnemoscope.lenses.spectrum import summary as of_spectrum
from mnemoscope.lenses.spectrum.summary import SpectrumBrief, SpectrumSummary
from mnemoscope.plots.figure import Plot, Series, bars

if TYPE_CHECKING:
    from mnemoscope.lenses.heads.result import HeadsResult
    from mnemoscope.lenses.spectrum.result import SpectrumResult
    from mnemoscope.lenses.waves.result import PropagationResult, WavesResult

NOT_KNOWN = float("nan")
# What filters do; the control of results of older versions left the wave in.
FILTERS = {
    "stop": "band taken out",
    "pass": "only the band left",
    "elsewhere": "control: as much energy taken off elsewhere",
    "shuffled": "control: the band taken off at other positions",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class PositionWaves(SpectrumBrief, HeadsBrief):
    """Spectra of means by position, and heads: what every checkpoint has."""


@dataclass(frozen=True)
class Survival:
    """How far the position embeddings explain the means by position at one site.

    The last four are explained at `mnemoscope.lenses.waves.result.PropagationResult`.
    """

    site: str
    fit: float
    shuffled: float
    line: float
    share: float
    norms: float = NOT_KNOWN
    kept: float = NOT_KNOWN
    whole: float = NOT_KNOWN
    bands: Vector = ()


@dataclass(frozen=True)
class NormFit:
    """One norm on the way of the position embeddings, or beside it.

    on_path    whether the sum of all layers goes through it
    spread     how much the std that it divides by varies over tokens, std / mean
    measured   R² of what it gives, by position, from what it is given, its measured S and its gain
    constant   the same with one S for all positions
    free       the same with S and L fitted
    whole      share of the waves' energy that all S on the way up to here leave in their shape
    """

    path: str
    on_path: bool
    spread: float
    measured: float
    constant: float
    free: float
    whole: float


@dataclass(frozen=True, eq=False)
class BandFilters:
    """What filters did, by mode; bands as in ``bands``.

    asked       what the loss is of; empty when the model has no head that could be asked
    loss        what the model loses as it is, nats; NaN when it has no loss
    change      (B,) how much more it loses; without a loss, how much of the variance of what
                the last layer gives has changed; ``error`` is two standard errors over texts
    moved       (B, L) share of attention that goes elsewhere in a layer for the same input
    matched     (B,) how much of the band's energy the control could take off elsewhere
    entropy     of single tokens of the texts, nats: what a model that knows only frequencies loses
    """

    asked: str
    bands: tuple[str, ...]
    texts: int
    loss: float
    change: dict[str, Floats]
    error: dict[str, Floats]
    moved: dict[str, Floats]
    matched: Floats | None = None
    entropy: float = NOT_KNOWN

    @property
    def control(self) -> str:
        """The filter that is the control; results of older versions have another."""
        return "elsewhere" if "elsewhere" in self.change else "shuffled"

    @property
    def costliest(self) -> int:
        """The single band that changes most when it is taken out."""
        return int(np.argmax(self.change["stop"][:-1]))

    def above_control(self, band: int) -> float:
        """What a band costs beyond what as much energy elsewhere does."""
        return float(self.change["stop"][band] - self.change[self.control][band])

    def surely(self, band: int) -> bool:
        """Whether it costs more than nothing and than its control, two errors of both apart."""
        low = self.change["stop"][band] - self.error["stop"][band]
        high = self.change[self.control][band] + self.error[self.control][band]
        return bool(low > max(0.0, high))

    def table(self) -> Records:
        """One row per mode and band."""
        moved = np.array(list(self.moved.values()))
        return records(
            {"filter": list(self.moved), "period": self.bands},
            {
                "change": [self.change[mode] for mode in self.moved],
                "error": [self.error[mode] for mode in self.moved],
                **{f"attention moved, layer {n}": moved[..., n] for n in range(moved.shape[2])},
            },
        )

    def figure(self) -> Plot:
        """Loss added by band and mode; without a loss, how much of the outputs has changed."""
        series = [
            Series(FILTERS[m], self.bands, c, c - self.error[m], c + self.error[m])
            for m, c in self.change.items()
        ]
        added = f"loss added ({self.asked}, nats)"
        return bars(
            series,
            "period in tokens",
            added if self.asked else "share of the outputs' variance changed",
        )


@dataclass(frozen=True, eq=False)
class WaveShift:
    """Waves of queries shifted by K numbers of tokens, all (K, L, H).

    moved    how much of a head's attention by offset is found k tokens further back
    stayed   how much of it is found where it was; NaN where attention is flat to begin with
    """

    shifts: tuple[int, ...]
    texts: int
    moved: Floats
    stayed: Floats

    def at(self, values: Floats, head: tuple[int, int]) -> float:
        """The mean over shifts at one (layer, head)."""
        return float(np.mean(np.array(values)[:, head[0], head[1]]))


@dataclass(frozen=True, eq=False)
class HeadColumns:
    """A column of the queries and keys of a head along T positions, each (2, T).

    text, mean   as it is, in one text and in the mean over texts
    passed       of the mean, nothing but the ``band`` of periods
    """

    layer: int
    head: int
    column: int
    band: str
    text: Floats
    mean: Floats
    passed: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class Tried:
    """What became of the waves of one model, and what was tried on them.

    propagation     site by site; None for a model without absolute positions
    norm_fits       norm by norm
    filters, shift  what the model makes of it when waves are taken out, and shifted
    """

    propagation: tuple[Survival, ...] | None
    norm_fits: tuple[NormFit, ...] = ()
    filters: BandFilters
    shift: WaveShift | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class WavesSummary(Tried, PositionWaves, SpectrumSummary, HeadsSummary):
    """All that the page of one model shows.

    recovery        by method, (L,) share of variance by position in the best few directions
    recovery_best   how many directions those are, of how many
    norms           by path, how much the std that a norm divides by varies over tokens
    columns         of queries and keys of the strongest heads
    """

    model: str
    recovery: dict[str, Floats]
    recovery_sites: tuple[str, ...]
    recovery_null: float
    recovery_best: tuple[int, int]
    unsettled: tuple[str, ...]
    norms: dict[str, float]
    columns: tuple[HeadColumns, ...] = ()


def brief(spectrum: SpectrumResult, heads: HeadsResult) -> dict[str, Any]:
    """The fields of `PositionWaves`."""
    return {**of_spectrum.brief(spectrum), **of_heads.brief(heads)}


def summary(result: WavesResult) -> WavesSummary:
    """All that the page of one model shows."""
    recovery = result.recovery
    return WavesSummary(
        model=result.model,
        **of_spectrum.whole(result.spectrum),
        **of_heads.whole(result.heads),
        recovery=rounded(recovery.value),
        recovery_sites=recovery.sites,
        recovery_null=recovery.null,
        recovery_best=(recovery.best, recovery.directions),
        unsettled=recovery.unsettled,
        norms=result.norms,
        columns=tuple(rounded(one, DRAWN) for one in result.columns),
        **tried(result),
    )


def tried(result: WavesResult) -> dict[str, Any]:
    """The fields of `Tried`."""
    return {
        "propagation": None if result.propagation is None else _survival(result.propagation),
        "norm_fits": result.norm_fits,
        "filters": rounded(result.bands),
        "shift": rounded(result.shift),
    }


def _survival(found: PropagationResult) -> tuple[Survival, ...]:
    """Site by site; what results of older versions do not have is not known."""
    names = ("fit", "shuffled", "line", "energy", "norms", "kept", "whole")
    curves = [getattr(found, name) for name in names]
    columns = [repeat(NOT_KNOWN) if one is None else short(one) for one in curves]
    bands = repeat(()) if found.bands is None else map(short, found.bands)
    return tuple(Survival(*row) for row in zip(found.sites, *columns, bands, strict=False))
