"""What models retain: curves with their controls, and the yardstick drawn from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mnemoscope.lenses.lens import Records, Result
from mnemoscope.lenses.retention import page
from mnemoscope.lenses.retention.episodes import Along
from mnemoscope.plots.figure import Plot, Reference, Series, lines
from mnemoscope.report.document import Section


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % bootstrap interval; None lies beyond the oldest age asked."""

    value: float | None
    low: float | None
    high: float | None

    def __str__(self) -> str:
        if self.value == self.high == 0:
            return "nothing recalled"
        ends = ["beyond" if end is None else f"{end:.3g}" for end in (self.low, self.high)]
        middle = "beyond" if self.value is None else f"{self.value:.3g}"
        return middle if ends[0] == ends[1] == middle else f"{middle} ({ends[0]} to {ends[1]})"


@dataclass(frozen=True)
class Cost:
    """Of one stream, by how many tokens it has read: bytes carried, FLOPs of the next token."""

    lengths: tuple[int, ...]
    bytes: tuple[int, ...]
    flops: tuple[int, ...]


@dataclass(frozen=True)
class Points:
    """Bits recalled per episode along one thing, one entry a point.

    low, high  95 % bootstrap interval over episodes
    blanked    the same after the state was emptied when the writes were over
    shuffled   the same answers held against another episode's values
    most       what there was to recall
    accuracy   share of questions whose likeliest answer is right
    bytes      carried when the segment of a question begins, mean over questions
    narrowest  the least that was carried between the last write and the last question
    """

    x: tuple[int, ...]
    bits: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    blanked: tuple[float, ...]
    shuffled: tuple[float, ...]
    most: tuple[float, ...]
    accuracy: tuple[float, ...]
    bytes: tuple[float, ...]
    narrowest: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Curve(Points):
    """These, and what they lie along."""

    along: Along

    def said(self, index: int) -> str:
        """Bits at one point with their interval: ``1.20 (1.10 to 1.31)``."""
        return f"{self.bits[index]:.2f} ({self.low[index]:.2f} to {self.high[index]:.2f})"

    def table(self) -> Records:
        """One row per point."""
        columns = [name for name in vars(self) if name not in ("along", "x")]
        return [
            {self.along: x} | {name: getattr(self, name)[index] for name in columns}
            for index, x in enumerate(self.x)
        ]

    def figure(self) -> Plot:
        """The curve with its band, both controls, and all there was to recall."""
        series = [
            Series("recalled", self.x, self.bits, self.low, self.high),
            Series("state blanked", self.x, self.blanked),
            Series("answers shuffled", self.x, self.shuffled),
        ]
        references = []
        if len(set(self.most)) == 1:
            references = [Reference(self.most[0], "all there was")]
        else:
            series.append(Series("all there was", self.x, self.most, style=6))
        top = (0, 1.05 * max(self.most))
        return lines(
            series, page.TITLES[self.along], "bits recalled", references=references,
            log_x=self.x[0] > 0, y_range=top,
        )  # fmt: skip


@dataclass(frozen=True)
class RetentionResult(Result):
    """What one model retains.

    half_life  age at which half is left of the most bits recalled at any age
    horizon    age from which on less than a twentieth of an answer is left: chance, but for noise
    trained    whether it was asked on the task it was trained on, or else in context
    capacity   most bits recalled of one episode, over all numbers of items
    bytes      carried while those were asked; per_byte = capacity / bytes
    flops      of reading that episode; per_flop = capacity / flops
    """

    model: str
    values: int
    episodes: int
    by_age: Curve
    by_items: Curve
    by_overwrites: Curve
    half_life: Estimate
    horizon: Estimate
    capacity: float
    bytes: float
    flops: int
    trained: bool = False

    @property
    def per_byte(self) -> float:
        """Bits recalled per byte carried; at most 8."""
        return self.capacity / self.bytes

    @property
    def per_flop(self) -> float:
        """Bits recalled per floating-point operation."""
        return self.capacity / self.flops

    @property
    def curves(self) -> tuple[Curve, Curve, Curve]:
        """By age, by items, by overwrites."""
        return self.by_age, self.by_items, self.by_overwrites

    def figure(self) -> Plot:
        """Bits recalled by age."""
        return self.by_age.figure()

    def table(self) -> Records:
        """One row per point of every curve."""
        return [
            {"along": curve.along, "x": row.pop(curve.along), **row}
            for curve in self.curves
            for row in curve.table()
        ]

    def sections(self) -> list[Section]:
        """What is left, the yardstick, and the three curves."""
        return page.sections({self.model: self})


@dataclass(frozen=True)
class RetentionComparison(Result):
    """Several models side by side, by name."""

    results: Mapping[str, RetentionResult]

    def figure(self) -> Plot:
        """Bits recalled by age, one line a model."""
        return page.compared({name: one.by_age for name, one in self.results.items()})

    def table(self) -> Records:
        """One row per model and point of every curve."""
        return [{"model": name} | row for name, one in self.results.items() for row in one.table()]

    def sections(self) -> list[Section]:
        """What is left of each, the yardstick, and the three curves."""
        return page.sections(self.results)
