"""What can be read off a state, by age and frequency: options, result and page of the lens.

Shapes: A ages (windows), L tokens a window.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from mnemoscope.core.arrays import Floats, Ints
from mnemoscope.core.config import Config
from mnemoscope.lenses.lens import MOST, Part, Records, Result, records
from mnemoscope.plots.figure import Plot, Reference, Series, heatmap, lines
from mnemoscope.report.document import Figure

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
        null = (self.null > FAINT).sum(1).astype(float)
        series.append(Series("null: states of other streams", self.ages, null))
        length = self.kept.shape[1]
        return lines(
            series,
            "age (tokens)",
            f"directions kept of {length}",
            references=[Reference(length, "all")],
            y_range=(0, length * 1.05),
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

    def parts(self) -> list[Part]:
        """Directions kept against age, and which waves they are."""
        low, mean, high = self.directions
        length = self.kept.shape[1]
        null = (self.null > FAINT).sum(1).astype(float)
        columns = {"directions": mean, "low": low, "high": high, "null": null}
        rows = records({"age": self.ages.tolist()}, columns)
        parts: list[Part] = [
            f"{self.samples[0]} random streams, {self.samples[1]} numbers of the state. Of the "
            f"{length} waves of a window {mean[0]:.0f} can be read off the state at age "
            f"{self.ages[0]}, {mean[-1]:.0f} at age {self.ages[-1]}; from states of other streams "
            f"at most {null.max():.0f}.",
            Figure(
                "Directions kept by age",
                self.figure(),
                f"Waves of which more than {FAINT:g} of the variance is predicted by ridge "
                f"regression on held-out streams. Band: lowest and highest of {FOLDS} folds.",
                rows,
            ),
            Figure(
                "Waves kept by age",
                self.frequencies(),
                "Share of the variance of every wave that is predicted.",
                self.table(),
            ),
        ]
        return parts
