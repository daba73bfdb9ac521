"""What can be read off a state, by age and frequency: options, result and page of the lens.

Shapes: A ages (windows), L tokens a window.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pydantic import Field

from mnemoscope.core.arrays import Floats, Ints
from mnemoscope.core.config import Config
from mnemoscope.lenses.lens import MOST, Part, Records, Result, records
from mnemoscope.plots.figure import Plot, Reference, Series, heatmap, lines
from mnemoscope.report.document import Figure, Finding, finding

# Of its variance, what must be predicted of a wave before it counts as kept.
FAINT = 0.1
FOLDS = 4


class HorizonOptions(Config):
    """Random streams, and how finely their windows are told apart."""

    window: int = Field(16, ge=2, le=MOST, description="tokens of a window")
    windows: int = Field(8, ge=1, le=MOST, description="windows of a stream, one for each age")
    rows: int = Field(1200, ge=2 * FOLDS, le=MOST, description="streams read in all")
    batch: int = Field(50, ge=2, le=MOST, description="streams read at once")
    channels: int = Field(4, ge=1, le=MOST, description="random projections of an embedding")
    features: int = Field(512, ge=1, le=MOST, description="numbers of the state used at most")
    segment: int | None = Field(
        None, ge=1, le=MOST, description="tokens read at once; by default one window"
    )
    seed: int = Field(0, ge=0, lt=1 << 63, description="root of the randomness")


@dataclass(frozen=True, eq=False)
class HorizonResult(Result):
    """What is left of windows of L tokens.

    ages        (A,)    tokens between a window's end and now
    kept        (A, L)  share of the variance of each wave that can be predicted, mean over folds
    low, high   (A, L)  lowest and highest fold
    null        (A, L)  the same from states of other rows: what chance gives
    expected    (A,)    directions kept by algebra, for a model that is one signal; else empty
    samples     rows that were read, features of the state that were used
    """

    ages: Ints
    kept: Floats
    low: Floats
    high: Floats
    null: Floats
    expected: Ints
    samples: tuple[int, int]

    @property
    def directions(self) -> tuple[Floats, Floats, Floats]:
        """How many of the L waves are kept, by age: lowest fold, mean, highest fold."""
        folds = (self.low, self.kept, self.high)
        low, mean, high = ((kept > FAINT).sum(1).astype(float) for kept in folds)
        return low, mean, high

    def table(self) -> Records:
        """One row per age and wave."""
        waves = range(self.kept.shape[1])
        return records(
            {"age": self.ages.tolist(), "wave": waves},
            {
                "cycles": [(wave + 1) // 2 for wave in waves],
                "kept": self.kept,
                "low": self.low,
                "high": self.high,
                "null": self.null,
            },
        )

    def figure(self) -> Plot:
        """Directions kept against age, with the null and, where there is one, the algebra."""
        low, mean, high = self.directions
        series = [Series("read off the state", self.ages, mean, low, high)]
        if self.expected.size:
            series.append(Series("by algebra", self.ages, self.expected.astype(float)))
        series.append(Series("null: states of other streams", self.ages, self.by_chance))
        length = self.kept.shape[1]
        return lines(
            series,
            "age (tokens)",
            f"components kept of {length}",
            references=[Reference(length, "all")],
            y_range=(-length * 0.03, length * 1.05),
        )

    def frequencies(self) -> Plot:
        """Share kept as a picture: waves down, ages across."""
        waves = ["mean"]
        for wave in range(1, self.kept.shape[1]):
            waves.append(f"{'cos' if wave % 2 else 'sin'} {(wave + 1) // 2}")
        ages = [str(age) for age in self.ages]
        return heatmap(
            self.kept.T.clip(0, 1), ages, waves, "age (tokens)", "wave (cycles per window)", "kept",
            z_range=(0, 1),
        )  # fmt: skip

    @property
    def by_chance(self) -> Floats:
        """How many of the L waves states of other streams seem to hold, by age."""
        found: Floats = (self.null > FAINT).sum(1).astype(float)
        return found

    def finding(self) -> Finding:
        """How much is left at the youngest age, and where the horizon lies."""
        (low, mean, high), null, length = self.directions, self.by_chance, self.kept.shape[1]
        above = np.flatnonzero(low > null)
        ends = zip(low, high, strict=True)
        band = [f"{few:.0f} to {many:.0f} over {FOLDS} folds" for few, many in ends]
        others = f"states of other streams give at most {null.max():.0f}"
        said = [
            f"Of the {length} Fourier components of a window of {length} tokens, {mean[0]:.0f} can "
            f"be read off the state at age {self.ages[0]} ({band[0]}); {others}."
        ]
        if not above.size:
            said = [
                f"At no age is what can be read off the state distinguishable from chance: of "
                f"{length} Fourier components of a window at most {mean.max():.0f} are found, and "
                f"{others}."
            ]
        elif above[-1] + 1 < len(self.ages):
            last, lost = self.ages[above[-1] : above[-1] + 2]
            said.append(
                f"The horizon lies between ages {last} and {lost}: from age {lost} on, what is "
                "found is not distinguishable from states of other streams."
            )
        elif len(self.ages) > 1:
            said.append(
                f"The horizon lies beyond age {self.ages[-1]}, the oldest measured: "
                f"{mean[-1]:.0f} can still be read there ({band[-1]})."
            )
        if self.expected.size:
            apart = np.abs(mean - self.expected).max()
            said.append(
                f"The algebra of this memory predicts {self.expected[0]} at age {self.ages[0]} and "
                f"{self.expected[-1]} at age {self.ages[-1]}; no count differs from it by more "
                f"than {apart:.0f}."
            )
        columns = {"directions": mean, "low": low, "high": high, "null": null}
        return finding(
            *said,
            figure=Figure(
                "Directions kept by age",
                self.figure(),
                f"Components of which ridge regression on held-out streams predicts more than "
                f"{FAINT:g} of the variance. Band: lowest and highest of {FOLDS} folds. "
                f"{self.samples[0]} random streams, {self.samples[1]} numbers of the state.",
                records({"age": self.ages.tolist()}, columns),
            ),
        )

    def parts(self) -> list[Part]:
        """Which waves are kept."""
        return [
            Figure(
                "Waves kept by age",
                self.frequencies(),
                "Share of the variance of every wave that is predicted.",
                self.table(),
            ),
        ]
