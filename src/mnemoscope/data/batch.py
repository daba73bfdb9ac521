"""What a task hands to a model: tokens, questions and where each row begins anew."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from mnemoscope.core.arrays import Ints
from mnemoscope.core.config import Config
from mnemoscope.core.seeds import derive
from mnemoscope.data.vocabulary import Vocabulary

Split = Literal["train", "valid", "test"]

# Written into `Batch.targets` where nothing is asked; the value torch's cross entropy skips.
NO_QUESTION = -100
# Written into `Batch.source` after the end of a row.
NO_WORD = -1
# Golden steps spread any number of passages evenly over a text, none of them twice.
GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class Batch:
    """One batch of a stream; rows are independent, columns are consecutive tokens.

    tokens   (B, T) int64   what the model reads
    targets  (B, T) int64   what it should say there, `NO_QUESTION` where nothing is asked
    ages     (B, T) int64   how many tokens ago the answer was read, 0 where unknown
    starts   (B,) bool      rows that begin a new stream here: their state is reset first
    source   (B, S) int64   what is read before all tokens, `NO_WORD` after a row's end, or None
    """

    tokens: Ints
    targets: Ints
    ages: Ints
    starts: NDArray[np.bool_]
    source: Ints | None = None

    @classmethod
    def episodes(
        cls, tokens: Ints, targets: Ints, ages: Ints | None = None, source: Ints | None = None
    ) -> Batch:
        """Rows that all begin anew; without ``ages`` they are unknown."""
        ages = np.zeros_like(tokens) if ages is None else ages
        return cls(tokens, targets, ages, np.ones(len(tokens), dtype=np.bool_), source)

    def rows(self, chosen: slice) -> Batch:
        """Return some rows only, as each process of a parallel run takes its share."""
        return Batch(
            self.tokens[chosen],
            self.targets[chosen],
            self.ages[chosen],
            self.starts[chosen],
            None if self.source is None else self.source[chosen],
        )

    def part(self, number: int, of: int) -> Batch:
        """Return one of ``of`` parts, as equal as can be; with few rows some are empty."""
        count = len(self.tokens)
        return self.rows(slice(number * count // of, (number + 1) * count // of))


class Task(Config):
    """A source of batches; which batch comes at a step is a pure function of (seed, step, size).

    Nothing is remembered between calls, so a run resumed at step s sees what it would have seen.
    """

    # True when row i of step s+1 goes on where row i of step s ended (text), False for episodes.
    carries: ClassVar[bool] = False
    # True when the one question of an episode comes with its last token: many to one.
    asks_once: ClassVar[bool] = False
    # The kind of models that can learn it, as in the registry.
    models: ClassVar[str] = "memory"

    @property
    def outputs(self) -> int | None:
        """How many answers there are to choose from, None when they are token ids too."""
        return None

    @property
    def majority(self) -> float | None:
        """Accuracy of who always gives the commonest answer, None when nobody has counted."""
        return None

    @property
    def source_vocab(self) -> int | None:
        """How many token ids the source has, None when no source is read."""
        return None

    @property
    def vocabularies(self) -> dict[str, Vocabulary]:
        """The maps between text and tokens that a run keeps, by file name."""
        return {}

    @property
    def hides_answers(self) -> bool:
        """Whether a model that looks ahead would still have to find the answers out."""
        return False

    @property
    def digest(self) -> str | None:
        """A fingerprint of data that could change under a run, None when it cannot."""
        return None

    @property
    @abstractmethod
    def vocab(self) -> int:
        """How many token ids exist, in and, unless there are ``outputs``, out."""

    @property
    @abstractmethod
    def longest(self) -> int | None:
        """Tokens in the longest episode, None for a stream that has no end."""

    @abstractmethod
    def batch(
        self, step: int, size: int, *, seed: int, split: Split = "train", length: int = 128
    ) -> Batch:
        """Return the batch of ``size`` rows at ``step``; ``length`` counts for endless streams."""

    def generator(self, step: int, seed: int, split: Split) -> np.random.Generator:
        """Return the random generator that belongs to one step of one split."""
        return np.random.default_rng(derive(seed, "data", split, step))

    def choose(self, count: int, step: int, size: int, seed: int, split: Split) -> Ints:
        """Return ``size`` of ``count`` things: drawn at random to train on, else in turn."""
        if split == "train":
            return self.generator(step, seed, split).integers(count, size=size)
        return (step * size + np.arange(size)) % count


class FixedLength(Task):
    """What tasks share whose episodes all have the same length."""

    length: int

    @property
    def longest(self) -> int:
        """Tokens in every episode."""
        return self.length


def part_sizes(count: int, held_out: float, test: float) -> tuple[int, int]:
    """How many of ``count`` things to validate on and to test on: one at least, if any share."""
    tested = min(max(1, round(count * test)), count - 2) if test else 0
    return min(max(1, round(count * held_out)), count - tested - 1), tested


@dataclass
class Stream(Iterator[Batch]):
    """An iterator over a task's batches with its position in plain sight."""

    task: Task
    size: int
    seed: int
    split: Split = "train"
    length: int = 128
    position: int = 0

    def __next__(self) -> Batch:
        """Return the batch at the position and move on by one."""
        batch = self.task.batch(
            self.position, self.size, seed=self.seed, split=self.split, length=self.length
        )
        self.position += 1
        return batch
