"""What the lens `retention` asks: episodes of recall by age, by items stored, by overwrites.

Imports no torch, so that a mistyped option shows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from mnemoscope.core.config import Config
from mnemoscope.core.errors import UserError
from mnemoscope.core.seeds import derive
from mnemoscope.data.batch import NO_QUESTION, Batch
from mnemoscope.data.recall import Recall

# Tokens of an episode, and all that is counted one by one.
MOST = 1 << 20
# Of the bits of an answer, what counts as chance, with room for noise.
CHANCE = 1 / 20
Along = Literal["age", "items", "overwrites"]


class RetentionOptions(Config):
    """How a model is asked what it still knows."""

    ages: tuple[int, ...] = Field(
        (1, 3, 7, 13, 23, 41, 83, 167),
        min_length=2,
        description="tokens between a write and its question",
    )
    items: tuple[int, ...] = Field(
        (1, 2, 4, 8), min_length=1, description="pairs stored, each of them asked once"
    )
    overwrites: tuple[int, ...] = Field(
        (0, 1, 2, 4), min_length=1, description="pairs that are written twice"
    )
    pairs: int = Field(
        4, ge=1, le=MOST, description="pairs stored where ages and overwrites are asked"
    )
    rest: int = Field(
        48, ge=1, le=MOST, description="tokens after the writes where items are asked"
    )
    keys: int = Field(
        16, ge=1, le=MOST, description="different keys, of a model that was not trained on it"
    )
    values: int = Field(16, ge=2, le=MOST, description="different values, likewise")
    episodes: int = Field(256, ge=2, le=MOST, description="episodes for each question")
    batch: int = Field(64, ge=1, le=MOST, description="episodes read at once")
    segment: int = Field(16, ge=1, le=MOST, description="tokens read at once")
    resamples: int = Field(1000, ge=10, le=MOST, description="of the bootstrap over episodes")
    seed: int = Field(0, ge=0, lt=1 << 63, description="root of the randomness")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for name in ("ages", "items", "overwrites"):
            given = getattr(self, name)
            least = 0 if name == "overwrites" else 1
            if list(given) != sorted(set(given)) or given[0] < least or given[-1] > MOST:
                raise ValueError(f"{name} must be increasing numbers from {least} to {MOST}")
        if self.overwrites[-1] > self.pairs:
            raise ValueError(f"of pairs={self.pairs} no {self.overwrites[-1]} can be overwritten")
        if max(self.items[-1], self.pairs) > self.rest:
            raise ValueError(f"rest={self.rest} is too short for a question about every pair")
        return self


@dataclass(frozen=True)
class Question:
    """One point of one curve: ``at`` tokens, items or overwrites, and its episodes."""

    along: Along
    at: int
    task: Recall


def curve_points(task: Recall, options: RetentionOptions) -> list[Question]:
    """Every point of the three curves, with episodes of the kind that ``task`` has.

    No pair is asked twice in an episode: then the answers cannot hold more than the state does.
    """
    most = max(options.items[-1], options.pairs)
    if task.keys < most:
        raise UserError(f"there are {task.keys} keys, too few for {most} pairs: ask for fewer")
    kind = {"keys": task.keys, "values": task.values, "joined": task.joined}

    def episodes(pairs: int, **rest: Any) -> Recall:
        return Recall.make(**kind, pairs=pairs, **rest)

    unit = 1 if task.joined else 2
    pairs, rest = options.pairs, options.rest
    asked = [
        Question(
            "age", age, episodes(pairs, queries=1, ages=(age,), length=max(3, unit * pairs + age))
        )
        for age in options.ages
    ]
    asked += [
        Question("items", count, episodes(count, queries=count, length=unit * count + rest))
        for count in options.items
    ]
    asked += [
        Question(
            "overwrites",
            twice,
            episodes(pairs, queries=pairs, overwrites=twice, length=unit * (pairs + twice) + rest),
        )
        for twice in options.overwrites
    ]
    return asked


class Spelling:
    """Which ids of a model stand for the ids of a task."""

    def __init__(self, task: Recall, vocab: int, avoid: Sequence[int] = (), seed: int = 0) -> None:
        """Draw ids for keys, values and noise; a model trained on the task needs no spelling."""
        free = np.setdiff1d(np.arange(vocab), np.asarray(avoid, dtype=np.int64))
        known = task.keys + task.values
        if task.joined or len(free) <= known:
            raise UserError(
                f"a vocabulary of {vocab} is too small for {task.keys} keys and {task.values} "
                "values: ask with fewer"
            )
        drawn = np.random.default_rng(derive(seed, "spelling")).permutation(free)
        self.filler, self.seed = known, seed
        self.ids, self.noise = drawn[:known], drawn[known:]
        self.answers: list[int] = self.ids[task.keys :].tolist()

    def spell(self, batch: Batch, step: int) -> Batch:
        """The same episodes in the model's ids; every filler is another word of noise."""
        rng = np.random.default_rng(derive(self.seed, "noise", step))
        tokens = rng.choice(self.noise, batch.tokens.shape)
        real = batch.tokens != self.filler
        tokens[real] = self.ids[batch.tokens[real]]
        targets = np.full_like(batch.targets, NO_QUESTION)
        asked = batch.targets != NO_QUESTION
        targets[asked] = self.ids[batch.targets[asked]]
        return Batch(tokens, targets, batch.ages, batch.starts)
