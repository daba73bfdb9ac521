"""Sort what was read: by how often each symbol came, or plain numbers from high to low.

The frequency variant is the sorting task of "∞-former: Infinite Memory Transformer" (Martins,
Marinho, Martins, 2022): the answer depends on the whole input, and the symbols' probabilities
drift, so the end of the input alone misleads.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from mnemoscope.core.arrays import Ints
from mnemoscope.data.batch import NO_QUESTION, Batch, Split, Task


class Sorting(Task):
    """Symbols, a separator, then the sorted answer, read back one token behind (teacher forced).

    Ids below ``symbols`` are symbols, the last id is the separator.
    ``Sorting(symbols=4, length=8)``, separator 4:

        tokens   1 1 3 1 3 0 2 2 4 1 3 2
        targets  . . . . . . . . 1 3 2 0

    frequency: every symbol once, the most frequent first, of equals the one seen first, those
    never seen last in the order of their ids. Each answer depends on all tokens: ages are 0.
    numbers: the symbols as numbers, all of them, in descending order; an age is the distance to
    where the number stood, of equal numbers the first seen comes first.

    A ``curriculum`` of shorter lengths is for training alone: held-out episodes have all tokens.
    """

    variant: Literal["frequency", "numbers"] = Field("frequency", description="what is sorted")
    symbols: int = Field(20, ge=2, description="how many different symbols, or numbers, there are")
    length: int = Field(1000, ge=1, description="tokens before the separator")
    curriculum: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (), description="other, shorter lengths that training begins with, one after another"
    )
    curriculum_steps: int = Field(400, ge=1, description="steps on each of these")

    @model_validator(mode="after")
    def _shorter(self) -> Self:
        if max(self.curriculum, default=0) > self.length:
            raise ValueError(
                f"a curriculum begins with shorter lengths: {max(self.curriculum)} is above "
                f"length={self.length}"
            )
        return self

    @property
    def vocab(self) -> int:
        """How many token ids exist: the symbols and the separator."""
        return self.symbols + 1

    @property
    def longest(self) -> int:
        """Tokens in every episode: the input, the separator, the answer but its last token."""
        return self.length + (self.symbols if self.variant == "frequency" else self.length)

    def batch(
        self, step: int, size: int, *, seed: int, split: Split = "train", length: int = 128
    ) -> Batch:
        """Return ``size`` episodes; the questions begin at the separator."""
        begun = self.curriculum[step // self.curriculum_steps :] if split == "train" else ()
        if begun:
            shorter = self.model_copy(update={"length": begun[0], "curriculum": ()})
            return shorter.batch(step, size, seed=seed, split=split)
        rng = self.generator(step, seed, split)
        if self.variant == "frequency":
            shown = self._drifting(rng, size)
            answer = sort_by_frequency(shown, self.symbols)
            answer_ages = np.zeros_like(answer)
        else:
            shown = rng.integers(self.symbols, size=(size, self.length))
            order = np.argsort(-shown, axis=1, kind="stable")
            answer = np.take_along_axis(shown, order, axis=1)
            answer_ages = self.length + np.arange(self.length) - order
        separator = np.full((size, 1), self.symbols, dtype=np.int64)
        tokens = np.concatenate([shown, separator, answer[:, :-1]], axis=1)
        targets = np.concatenate([np.full_like(shown, NO_QUESTION), answer], axis=1)
        ages = np.concatenate([np.zeros_like(shown), answer_ages], axis=1)
        return Batch.episodes(tokens, targets, ages)

    def _drifting(self, rng: np.random.Generator, size: int) -> Ints:
        """Draw tokens whose distribution moves linearly from one random one to another, (B, L)."""
        # One row of weights per distribution: row b's start is 2b, its end 2b + 1.
        weights = rng.integers(1, 10, size=(2 * size, self.symbols))
        # An urn holds each symbol as often as its weight, so one integer draw is exact.
        urns = np.repeat(np.tile(np.arange(self.symbols), 2 * size), weights.ravel())
        totals = weights.sum(axis=1)
        firsts = np.cumsum(totals) - totals
        # Drawing from the end's urn with probability t gives the mixture (1-t)·start + t·end.
        to_end = rng.random((size, self.length)) < np.linspace(0, 1, self.length)
        urn = 2 * np.arange(size)[:, None] + to_end
        drawn: Ints = urns[firsts[urn] + rng.integers(totals[urn])]
        return drawn


def sort_by_frequency(tokens: Ints, symbols: int) -> Ints:
    """Order 0..symbols-1 by decreasing frequency in each row of ``tokens`` (B, L) -> (B, symbols).

    Of symbols equally frequent the first seen comes first; those never seen go last, by id.
    """
    rows, length = tokens.shape
    flat = (symbols * np.arange(rows)[:, None] + tokens).ravel()
    counts = np.bincount(flat, minlength=rows * symbols).reshape(rows, symbols)
    first_seen = np.full(rows * symbols, length)
    np.minimum.at(first_seen, flat, np.tile(np.arange(length), rows))
    # lexsort is stable and its last key counts most.
    return np.lexsort((first_seen.reshape(rows, symbols), -counts), axis=1)
