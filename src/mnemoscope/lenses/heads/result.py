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
from mnemoscope.lenses.heads.page import (
    RELATIVE,
    by_head,
    by_offset,
    heads_section,
    led,
    relative_sentences,
)
from mnemoscope.lenses.heads.summary import HeadScores, HeadsSummary, ShiftByR, strongest, whole
from mnemoscope.lenses.lens import MOST, Records, Result, TextOptions, records
from mnemoscope.plots.figure import Plot
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
class HeadsResult(HeadScores, Result):
    """What was seen of the heads of one model, and what it was read off."""

    model: str
    texts: int
    positions: int
    components: Components | None = None
    rotary: Rotary | None = None
    paper: list[ShiftByR] = field(default_factory=list)
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
        return by_head(self.relative, "share that depends on i − j")

    def sections(self) -> list[Section]:
        """How far scores depend on the distance; then all that was seen of heads."""
        seen = HeadsSummary(**whole(self))
        return led([heads_section(seen)], RELATIVE, relative_sentences(seen))

    def head_figure(self, layer: int, head: int) -> Plot:
        """Attention by offset of one head, measured and predicted."""
        layers, heads = self.relative.shape
        if not (0 <= layer < layers and 0 <= head < heads):
            raise UserError(f"there are {layers} layers of {heads} heads, not {layer}, {head}")
        curves = {
            "measured": self.measured[layer, head],
            "predicted": self.predicted[layer, head],
            "all scores equal": self.flat[layer],
        }
        return by_offset(self.offsets, curves)

    def strongest(self, count: int) -> list[tuple[int, int]]:
        """The heads whose scores depend most on i − j."""
        return strongest(self.relative, count)


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
