"""Say the value last stored under a key: associative recall with many queries and overwrites."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from mnemoscope.core.arrays import Ints
from mnemoscope.data.batch import NO_QUESTION, Batch, FixedLength, Split

Keys = Annotated[int, Field(ge=1, description="how many different keys there are")]
Values = Annotated[int, Field(ge=2, description="how many different values there are")]


class Recall(FixedLength):
    """Key-value pairs, then filler in which keys return; at each the value last stored is due.

    Ids below ``keys`` are keys, the next ``values`` ids are values, the last id is the filler.
    ``Recall(keys=3, values=4, pairs=2, queries=2, length=10, overwrites=1)``, filler 7:

        tokens   2 4 0 5 2 6 0 7 2 7
        targets  . . . . . . 5 . 6 .

    Key 2 held value 4 first and value 6 later; the later one counts. An age is the distance from
    the query back to that value. All writes come first, in random order; a key may be asked again.

    With ``joined`` a write is one token, ``keys`` · ``values`` further ids behind the filler (here
    8 + 4 · key + value): to bind a key to its value takes no wit, so what is left is memory.
    """

    keys: Keys = 16
    values: Values = 16
    pairs: int = Field(4, ge=1, description="keys that get a value in an episode")
    queries: int = Field(4, ge=1, le=1_000_000, description="questions in an episode")
    length: int = Field(32, ge=3, description="tokens in an episode")
    ages: tuple[int, ...] | None = Field(
        None, description="ages that the queries take in turn; none = uniform over free positions"
    )
    overwrites: int = Field(0, ge=0, description="keys that are written twice; the later counts")
    joined: bool = Field(False, description="write key and value as one token")
    fewest: int | None = Field(
        None,
        ge=1,
        description="draw the number of pairs anew for every batch, from this to pairs, "
        "and that of overwrites up to its own",
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.keys < self.pairs:
            raise ValueError(
                f"keys={self.keys} is too few for pairs={self.pairs} different keys; "
                f"raise keys or lower pairs"
            )
        if self.overwrites > self.pairs:
            raise ValueError(
                f"overwrites={self.overwrites} is more than pairs={self.pairs}, and each key is "
                f"written at most twice; lower overwrites or raise pairs"
            )
        if self.length < self.written + self.queries:
            raise ValueError(
                f"length={self.length} is too short for {self.written} tokens of pairs and "
                f"{self.queries} queries; make it at least {self.written + self.queries}"
            )
        if self.ages is not None:
            self._check_ages(self.ages)
        if self.fewest is not None and (self.fewest > self.pairs or self.ages is not None):
            raise ValueError(
                f"fewest={self.fewest} must be at most pairs={self.pairs}, and goes without ages"
            )
        return self

    def _check_ages(self, ages: tuple[int, ...]) -> None:
        if not ages or min(ages) < 1:
            raise ValueError(f"ages={ages} must name at least one age, each 1 or more")
        if self.queries < len(ages):
            raise ValueError(
                f"queries={self.queries} leaves some of the {len(ages)} ages unasked; "
                f"make it at least {len(ages)}"
            )
        counts = Counter(self._in_turn(ages))
        order = list(counts)
        for turn, age in enumerate(order):
            taken = sum(self._clashes(age, other, counts[other]) for other in order[:turn])
            if counts[age] + taken > self._room(age):
                raise ValueError(
                    f"no room for {counts[age]} queries at age {age} among ages={ages}; each pair "
                    f"can be asked once at every age of {self.written - 1} or more when length is "
                    f"at least that age + {self.written}: change ages, raise length or lower "
                    f"queries"
                )

    @property
    def written(self) -> int:
        """Tokens that the writes take at the start of an episode, at most."""
        return self._unit * (self.pairs + self.overwrites)

    @property
    def answers(self) -> range:
        """The ids of the values, hence of all possible answers."""
        return range(self.keys, self.keys + self.values)

    @property
    def _unit(self) -> int:
        """Tokens of one write."""
        return 1 if self.joined else 2

    def _room(self, age: int) -> int:
        """Count the pairs that can be asked at this age whatever the order of the writes."""
        written, last, unit = self.written, self.written - 1, self._unit
        # Values stand last in their writes; the query must come after all of them, before the end.
        first = max(unit - 1, written - age)
        first += (unit - 1 - first) % unit
        fitting = len(range(first, min(last, self.length - 1 - age) + 1, unit))
        # Any write can be overwritten later, except the last one.
        last_fits = last + age < self.length
        return max(fitting - self.overwrites, int(last_fits))

    def _clashes(self, age: int, other: int, count: int) -> int:
        """Bound how many places for one age ``count`` queries at another age can take away."""
        apart = abs(age - other)
        if apart % self._unit:
            return 0
        # Places coincide when one value stands ``apart`` after another; so many slots can do that.
        return min(count, max(0, self.written - apart) // self._unit)

    def _in_turn(self, ages: tuple[int, ...]) -> list[int]:
        """Return the age of each query, age by age, those with the least room first."""
        turns = [ages[i % len(ages)] for i in range(self.queries)]
        return sorted(turns, key=lambda age: (self._room(age), age))

    @property
    def vocab(self) -> int:
        """How many token ids exist: keys, values, the filler, and writes that are one token."""
        return self.keys + self.values + 1 + (self.keys * self.values if self.joined else 0)

    def batch(
        self, step: int, size: int, *, seed: int, split: Split = "train", length: int = 128
    ) -> Batch:
        """Return ``size`` episodes of ``self.length`` tokens."""
        rng = self.generator(step, seed, split)
        if self.fewest is not None:
            pairs = int(rng.integers(self.fewest, self.pairs + 1))
            again = int(rng.integers(min(self.overwrites, pairs) + 1))
            some = self.model_copy(update={"pairs": pairs, "overwrites": again, "fewest": None})
            return some._episodes(rng, size)
        return self._episodes(rng, size)

    def _episodes(self, rng: np.random.Generator, size: int) -> Batch:
        """Draw ``size`` episodes.

        Shapes: B rows, W = pairs + overwrites writes, P pairs, Q queries.
        """
        twice, unit = self.overwrites, self._unit
        keys = _shuffles(rng, size, self.keys)[:, : self.pairs]  # (B, P)
        first = rng.integers(self.values, size=(size, self.pairs))
        # A shift other than 0 (mod values) makes the second value another one.
        second = (first[:, :twice] + rng.integers(1, self.values, (size, twice))) % self.values
        # Write i < P is the first of pair i, write P + i the second of pair i.
        slots = _shuffles(rng, size, self.pairs + twice)  # (B, W)
        rows = np.arange(size)[:, None]

        tokens = np.full((size, self.length), self.keys + self.values, dtype=np.int64)
        written = np.concatenate([keys, keys[:, :twice]], axis=1)
        values = np.concatenate([first, second], axis=1)
        if self.joined:
            tokens[rows, slots] = self.keys + self.values + 1 + written * self.values + values
        else:
            tokens[rows, 2 * slots] = written
            tokens[rows, 2 * slots + 1] = self.keys + values

        later = np.maximum(slots[:, :twice], slots[:, self.pairs :])
        stored = np.concatenate([later, slots[:, twice : self.pairs]], axis=1)
        stored = unit * stored + unit - 1  # (B, P)
        # The slots are shuffled: what was drawn first may be written last.
        last = np.where(slots[:, :twice] > slots[:, self.pairs :], first[:, :twice], second)
        held = np.concatenate([last, first[:, twice:]], axis=1)  # (B, P)

        asked, places = self._questions(rng, stored)  # (B, Q) both
        targets = np.full_like(tokens, NO_QUESTION)
        targets[rows, places] = self.keys + held[rows, asked]
        ages = np.zeros_like(tokens)
        ages[rows, places] = places - stored[rows, asked]
        tokens[rows, places] = keys[rows, asked]
        return Batch.episodes(tokens, targets, ages)

    def _questions(self, rng: np.random.Generator, stored: Ints) -> tuple[Ints, Ints]:
        """Choose which pair each query asks for and where, given where the values stand."""
        size = len(stored)
        if self.ages is None:
            free = self.length - self.written
            places = self.written + _shuffles(rng, size, free)[:, : self.queries]
            # Going round one shuffled order asks every pair equally often, up to one.
            asked = _shuffles(rng, size, self.pairs)[:, np.arange(self.queries) % self.pairs]
            return asked, places
        asked = np.empty((size, self.queries), dtype=np.int64)
        places = np.empty_like(asked)
        rows = np.arange(size)
        taken = np.zeros((size, self.length), dtype=np.bool_)
        taken[:, : self.written] = True
        for query, age in enumerate(self._in_turn(self.ages)):
            place = stored + age
            inside = place < self.length
            free_here = inside & ~taken[rows[:, None], np.where(inside, place, 0)]
            # The validator made sure that at least one pair is free in every row.
            chosen = np.where(free_here, rng.random(stored.shape), -1.0).argmax(axis=1)
            asked[:, query] = chosen
            places[:, query] = place[rows, chosen]
            taken[rows, places[:, query]] = True
        return asked, places


def _shuffles(rng: np.random.Generator, rows: int, count: int) -> Ints:
    """Return one independent permutation of 0..count-1 in each row."""
    return rng.permuted(np.tile(np.arange(count, dtype=np.int64), (rows, 1)), axis=1)
