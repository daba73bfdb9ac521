"""Repeat symbols after a lag: the plainest question about a memory."""

from __future__ import annotations

import math
from typing import Self

import numpy as np
from pydantic import Field, model_validator

from mnemoscope.data.batch import NO_QUESTION, Batch, Split, Task


class Copy(Task):
    """A few symbols, a long silence or noise, then one mark for each symbol to be repeated.

    Ids below ``symbols`` are symbols, the next ``fillers`` ids are fillers, the last one is the
    recall mark. ``Copy(symbols=8, items=2, lag=4)``, filler 8, mark 9, a dot where nothing is
    asked:

        tokens   2 5 8 8 8 8 9 9
        targets  . . . . . . 2 5

    Every answer was read lag + items tokens before its mark. With one filler the wait is silent,
    with several it is noise that the memory has to withstand.
    """

    symbols: int = Field(8, ge=2, description="how many different symbols there are")
    items: int = Field(1, ge=1, description="symbols shown at the start, to be repeated")
    lag: int = Field(16, ge=0, description="fillers between the last symbol and the first mark")
    fillers: int = Field(1, ge=1, description="kinds of filler; drawn at random when several")
    shortest: int | None = Field(
        None, ge=1, description="draw each batch's lag log-uniformly from here to lag; none = fixed"
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.shortest is not None and self.shortest > self.lag:
            raise ValueError(
                f"shortest={self.shortest} is above lag={self.lag}; lower shortest or raise lag"
            )
        return self

    @property
    def vocab(self) -> int:
        """How many token ids exist: the symbols, the fillers and the recall mark."""
        return self.symbols + self.fillers + 1

    @property
    def longest(self) -> int:
        """Tokens in an episode at the full lag."""
        return self.lag + 2 * self.items

    def at(self, lag: int) -> Self:
        """Return the same task at one fixed lag."""
        return self.make(**{**self.model_dump(), "lag": lag, "shortest": None})

    def batch(
        self, step: int, size: int, *, seed: int, split: Split = "train", length: int = 128
    ) -> Batch:
        """Return ``size`` episodes that share one lag, so that none needs padding."""
        rng = self.generator(step, seed, split)
        lag = self._draw_lag(rng)
        shown = rng.integers(self.symbols, size=(size, self.items))
        mark = self.symbols + self.fillers
        tokens = rng.integers(self.symbols, mark, size=(size, lag + 2 * self.items))
        targets = np.full_like(tokens, NO_QUESTION)
        ages = np.zeros_like(tokens)
        tokens[:, : self.items] = shown
        tokens[:, -self.items :] = mark
        targets[:, -self.items :] = shown
        ages[:, -self.items :] = lag + self.items
        return Batch.episodes(tokens, targets, ages)

    def _draw_lag(self, rng: np.random.Generator) -> int:
        if self.shortest is None:
            return self.lag
        # The upper end is lag + 1 because the floor below would otherwise never give lag itself.
        drawn = math.exp(rng.uniform(math.log(self.shortest), math.log(self.lag + 1)))
        # exp(log(n)) may land a hair outside n.
        return min(max(int(drawn), self.shortest), self.lag)
