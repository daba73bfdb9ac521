"""What is seen of heads, as plain arrays with names: options, result and page of the lens.

Shapes: L layers, H heads, T positions, R = 2 · reach + 1 offsets, J components, P rotary pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from pydantic import Field

from mnemoscope.core.arrays import Floats
from mnemoscope.core.errors import UserError
from mnemoscope.lenses.heads.page import heads_section
from mnemoscope.lenses.heads.summary import summary
from mnemoscope.lenses.lens import MOST, Records, Result, TextOptions, records
from mnemoscope.plots.figure import Plot, Series, heatmap, lines
from mnemoscope.report.document import Section

TERMS = (
    "position–position",
    "position–word",
    "word–position",
    "word–word",
    "constant–position",
    "constant–word",
)


class PositionOptions(TextOptions):
    """How finely positions are told apart."""

    window: int = Field(64, ge=4, le=MOST, description="positions whose waves are told together")
    frequencies: int | None = Field(
        None, ge=1, le=MOST, description="at least so many; by default those of the window"
    )
    reach: int = Field(16, ge=1, le=MOST, description="offsets that are shown, either way")
    paper: int = Field(4, ge=0, le=MOST, description="strongest heads with the shift of the paper")


class HeadsOptions(PositionOptions):
    """What is shown of every head."""

    parts: int = Field(4, ge=1, le=MOST, description="components kept of every head")
    explained: int = Field(8, ge=1, le=MOST, description="texts whose scores are decomposed")


@dataclass(frozen=True, eq=False)
class Components:
    """The J parts of every head that carry most of its position scores.

    values   (L, H, J) singular values
    left     (L, H, J, T) what queries have of them, by position, means over texts
    right    (L, H, J, T) what keys have of them
    share    (L, H, J) share of the position scores' energy
    periods  (2, L, H, J) tokens in the strongest wave of every left and right curve
    table_left, table_right   the same for the position embeddings alone, None without any
    """

    values: Floats
    left: Floats
    right: Floats
    share: Floats
    periods: Floats
    table_left: Floats | None = None
    table_right: Floats | None = None


@dataclass(frozen=True, eq=False)
class Rotary:
    """What rotary positions do to the scores.

    relative        (L, H) share of the score energy that depends on i − j without them
    relative_null   (L, H) the same with the scores of each row shuffled
    periods         (P,) tokens in which a pair of columns turns round once
    share           (L, H, P) share of each pair in how scores change with the offset
    """

    relative: Floats
    relative_null: Floats
    periods: Floats
    share: Floats


@dataclass(frozen=True, eq=False)
class PaperShift:
    """The shift of a head by the paper's R, for several equally good bases of the null space."""

    layer: int
    head: int
    shifts: Floats


@dataclass(frozen=True, eq=False)
class HeadsResult(Result):
    """All (L, H) unless said; offsets are i − j, positive = looking back.

    relative            share of the energy of row-centred scores that a function of i − j explains
    relative_null       the same with the scores of each row shuffled
    position_relative   the same share of what positions alone would score
    delay               offset that the waves of queries and keys prefer, by their cross-spectrum
    lag                 the offset at which they match best, all frequencies together
    coherence           0 to 1: how far keys are the queries' waves, shifted; and its null
    measured            (L, H, R) mean attention by offset, among positions that are kept
    predicted           (L, H, R) the same from the relative part of the position scores alone
    flat                (L, R) the same if all scores were equal: who only looks back sees more of
                        what is near
    fit                 R² of predicted against measured: 0 is as good as flat, below is worse
    favourite           the offset with the most attention above flat
    terms               score decomposition: by name, share of the energy of q · k; terms are not
                        orthogonal, so they need not sum to one
    """

    model: str
    texts: int
    positions: int
    offsets: Floats
    relative: Floats
    relative_null: Floats
    position_relative: Floats
    delay: Floats
    lag: Floats
    coherence: Floats
    coherence_null: Floats
    measured: Floats
    predicted: Floats
    flat: Floats
    fit: Floats
    terms: dict[str, Floats]
    shared: int
    components: Components | None = None
    rotary: Rotary | None = None
    paper: list[PaperShift] = field(default_factory=list)
    without: str = ""

    @property
    def favourite(self) -> Floats:
        """The offset with the most attention above flat, (L, H)."""
        found: Floats = self.offsets[np.nanargmax(self.measured - self.flat[:, None], -1)]
        return found

    def agreement(
        self, of: Literal["delay", "lag"] = "delay", coherence: float = 0.0
    ) -> tuple[float, float, int]:
        """Rank correlation with favourite over heads at least so coherent.

        How often chance does as well, and how many heads those are, come with it.
        """
        values, chosen = self.delay if of == "delay" else self.lag, self.coherence >= coherence
        found = rank_correlation(values[chosen], self.favourite[chosen])
        return (*found, int(chosen.sum()))

    def table(self) -> Records:
        """One row per head."""
        layers, heads = self.relative.shape
        rotary = self.rotary
        return records(
            {"layer": range(layers), "head": range(heads)},
            {
                "relative": self.relative,
                "null": self.relative_null,
                "relative of position scores": self.position_relative,
                "delay": self.delay,
                "lag": self.lag,
                "coherence": self.coherence,
                "coherence null": self.coherence_null,
                "favourite offset": self.favourite,
                "R² of prediction": self.fit,
                **self.terms,
                **({} if rotary is None else {"relative without rotary": rotary.relative}),
            },
        )

    def figure(self) -> Plot:
        """Share of score energy that depends on i − j, layer × head."""
        layers, heads = self.relative.shape
        return heatmap(
            self.relative, list(range(heads)), list(range(layers)), "head", "layer",
            "share that depends on i − j", z_range=(0, 1),
        )  # fmt: skip

    def sections(self) -> list[Section]:
        """One section."""
        return [heads_section(summary(self), "")]

    def head_figure(self, layer: int, head: int) -> Plot:
        """Attention by offset of one head, measured and predicted."""
        self._check(layer, head)
        seen = ~np.isnan(self.measured[layer, head])
        return lines(
            [
                Series(name, self.offsets[seen], values[layer, head][seen])
                for name, values in (("measured", self.measured), ("predicted", self.predicted))
            ]
            + [Series("all scores equal", self.offsets[seen], self.flat[layer][seen])],
            "offset i − j (positive = back)",
            "mean attention",
        )

    def _check(self, layer: int, head: int) -> None:
        layers, heads = self.relative.shape
        if not (0 <= layer < layers and 0 <= head < heads):
            raise UserError(f"there are {layers} layers of {heads} heads, not {layer}, {head}")

    def strongest(self, count: int) -> list[tuple[int, int]]:
        """The heads whose scores depend most on i − j."""
        order = np.argsort(-self.relative.ravel(), kind="stable")[:count]
        layers, heads = np.unravel_index(order, self.relative.shape)
        return [(int(layer), int(head)) for layer, head in zip(layers, heads, strict=True)]


def rank_correlation(left: Floats, right: Floats, draws: int = 2000) -> tuple[float, float]:
    """Spearman's correlation, ties shared, and the share of shuffles that reach it."""
    known = np.isfinite(left) & np.isfinite(right)
    a, b = _ranks(left[known]), _ranks(right[known])
    if len(a) < 3 or not a.std() or not b.std():
        return float("nan"), float("nan")
    a, b = (a - a.mean()) / a.std(), (b - b.mean()) / b.std()
    found = float((a * b).mean())
    rng = np.random.default_rng(0)
    chance = np.array([(a * rng.permutation(b)).mean() for _ in range(draws)])
    return found, float((1 + (np.abs(chance) >= abs(found) - 1e-12).sum()) / (1 + draws))


def _ranks(values: Floats) -> Floats:
    _, rank, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    found: Floats = (last - (counts - 1) / 2)[rank]
    return found
