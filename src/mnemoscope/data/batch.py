"""What a task hands to a model: tokens, questions and where each row begins anew."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from mnemoscope.core.config import Config
from mnemoscope.core.seeds import derive
from mnemoscope.data.vocabulary import Vocabulary

Split = Literal["train", "valid"]

# Written into `Batch.targets` where nothing is asked; the value torch's cross entropy skips.
NO_QUESTION = -100
# Written into `Batch.source` after the end of a row.
NO_WORD = -1


@dataclass(frozen=True)
class Batch:
    """One batch of a stream; rows are independent, columns are consecutive tokens.

    tokens   (B, T) int64   what the model reads
    targets  (B, T) int64   what it should say there, `NO_QUESTION` where nothing is asked
    ages     (B, T) int64   how many tokens ago the answer was read, 0 where unknown
    starts   (B,) bool      rows that begin a new stream here: their state is reset first
    source   (B, S) int64   what is read before all tokens, `NO_WORD` after a row's end, or None
    """

    tokens: NDArray[np.int64]
    targets: NDArray[np.int64]
    ages: NDArray[np.int64]
    starts: NDArray[np.bool_]
    source: NDArray[np.int64] | None = None

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
    # The kind of models that can learn it, as in the registry.
    models: ClassVar[str] = "memory"

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
        """How many token ids exist, in and out."""

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
