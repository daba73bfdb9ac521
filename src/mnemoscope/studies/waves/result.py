"""What the study `waves` found, as data that goes to JSON and back.

Shapes: S sites, F frequencies, W windows along the text, L layers, H heads, R offsets,
P rotary pairs, J components, T positions, B bands.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

Vector = tuple[float, ...]
Matrix = tuple[Vector, ...]
Cube = tuple[Matrix, ...]

OBJECTIVES = ("LM", "MLM")
# Least share of the variance that positions explain where waves are said to be.
LEAST_SHARE = 0.01


@dataclass(frozen=True)
class RotaryShares:
    """Scores without rotary positions, and what each pair of columns that turn together adds.

    relative, null   (L, H) as in `PositionWaves`, without rotary positions
    periods          (P,) tokens of a whole turn; None for a pair that does not turn
    share            (L, H, P) share in how the mean score changes with the offset
    """

    relative: Matrix
    null: Matrix
    periods: tuple[float | None, ...]
    share: Cube


@dataclass(frozen=True, kw_only=True)
class PositionWaves:
    """Spectra of means by position, and scores of heads by offset i − j (positive = back).

    power, peak, sharpness   (S, F), (S,), (S,) of the means by position; sharpness is the power of
                             the strongest frequency over the mean power
    sharpness_null           (S,) the sharpest of ten shuffles of the positions
    words_sharpness          (S,) of what is left when the means are taken off
    share                    (S,) share of variance that positions explain
    agreement                rank correlation of a head's delay with its favourite offset, how often
                             chance reaches it, number of heads; then of coherent heads, of the lag
    others                   (L, H), (L, H, R), flat (L, R), as `HeadsResult` explains them
    """

    sites: tuple[str, ...]
    texts: int
    positions: int
    window: int
    frequencies: Vector
    power: Matrix
    peak: Vector
    sharpness: Vector
    sharpness_null: Vector
    words_sharpness: Vector
    share: Vector
    offsets: Vector
    relative: Matrix
    relative_null: Matrix
    position_relative: Matrix
    delay: Matrix
    lag: Matrix
    coherence: Matrix
    coherence_null: Matrix
    favourite: Matrix
    fit: Matrix
    measured: Cube
    predicted: Cube
    flat: Matrix
    agreement: tuple[float, float, int]
    coherent_agreement: tuple[float, float, int]
    lag_agreement: tuple[float, float, int]
    terms: dict[str, Matrix]
    rotary: RotaryShares | None = None

    @property
    def with_waves(self) -> tuple[str, ...]:
        """Sites with waves: sharper than every shuffle and than words, and more than noise."""
        return tuple(
            site
            for s, site in enumerate(self.sites)
            if self.sharpness[s] > max(self.sharpness_null[s], self.words_sharpness[s])
            and self.share[s] > LEAST_SHARE
        )

    @cached_property
    def strongest(self) -> tuple[int, int]:
        """Layer and head whose scores depend most on i − j."""
        layer, head = np.unravel_index(np.argmax(self.relative), np.shape(self.relative))
        return int(layer), int(head)

    def at_strongest(self, values: Matrix) -> float:
        """What the strongest head has of ``values`` (L, H)."""
        layer, head = self.strongest
        return values[layer][head]


@dataclass(frozen=True, kw_only=True)
class Checkpoint(PositionWaves):
    """A model in training; before its first step it has no validation loss."""

    step: int
    loss: float | None


@dataclass(frozen=True)
class Amplitude:
    """The dimensions with the highest peaks, and their amplitudes by frequency."""

    dimensions: tuple[int, ...]
    values: Matrix


@dataclass(frozen=True)
class HeadComponents:
    """The two strongest singular components of a head: curves (J, T), periods (2, J)."""

    layer: int
    head: int
    left: Matrix
    right: Matrix
    periods: Matrix


@dataclass(frozen=True)
class PaperShift:
    """The shift of a head by the paper's R, for several equally good bases."""

    layer: int
    head: int
    shifts: Vector


@dataclass(frozen=True)
class Survival:
    """How far the position embeddings explain the means by position at one site."""

    site: str
    fit: float
    shuffled: float
    line: float
    share: float


@dataclass(frozen=True)
class BandFilters:
    """Loss added (B,) by filter when a band is taken out, two errors of it, attention moved (B, L).

    ``asked`` says what the loss is of; it is empty for a model that has none.
    """

    asked: str
    bands: tuple[str, ...]
    texts: int
    loss: float
    change: dict[str, Vector]
    error: dict[str, Vector]
    moved: dict[str, Matrix]


@dataclass(frozen=True, kw_only=True)
class ModelWaves(PositionWaves):
    """All that the page of one model shows.

    drift             (S, W) strongest frequency by window; ``centres`` (W,) are their middles
    recovery          by method, (L,) share of variance by position in the best few directions
    recovery_best     how many directions those are, of how many
    propagation       site by site; None for a model without absolute positions
    norms             by path, how much the std that a norm divides by varies over tokens
    shared, without   heads that share one key; why there are no singular vectors
    components        of the heads whose scores depend most on i − j
    """

    model: str
    drift: Matrix
    centres: Vector
    amplitude: dict[str, Amplitude]
    recovery: dict[str, Vector]
    recovery_sites: tuple[str, ...]
    recovery_null: float
    recovery_best: tuple[int, int]
    unsettled: tuple[str, ...]
    propagation: tuple[Survival, ...] | None
    norms: dict[str, float]
    shared: int
    without: str
    paper: tuple[PaperShift, ...]
    components: tuple[HeadComponents, ...]
    filters: BandFilters


@dataclass(frozen=True)
class Examined:
    """One training: the model at every checkpoint, its end in full, seconds of training."""

    checkpoints: tuple[Checkpoint, ...]
    final: ModelWaves
    seconds: float

    @property
    def last(self) -> Checkpoint:
        """The model at the end of its training."""
        return self.checkpoints[-1]


@dataclass(frozen=True)
class WavesTrial:
    """Which training it was, and what was seen; None where its loss left the finite numbers."""

    objective: str
    positions: str
    seed: int
    examined: Examined | None


@dataclass(frozen=True)
class WavesResult:
    """All trainings, and a real model if there was one."""

    positions: tuple[str, ...]
    seeds: int
    steps: int
    length: int
    width: int
    layers: int
    heads: int
    trials: tuple[WavesTrial, ...]
    real: ModelWaves | None

    def of(self, objective: str, kind: str) -> list[WavesTrial]:
        """Every training of a kind of positions."""
        return [t for t in self.trials if (t.objective, t.positions) == (objective, kind)]

    def examined(self, objective: str, kind: str) -> list[Examined]:
        """The same, without those that diverged."""
        return [t.examined for t in self.of(objective, kind) if t.examined is not None]
