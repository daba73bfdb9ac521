"""Hide some tokens of what is read, and ask for them (Devlin 2019, §3.1)."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from mnemoscope.core.arrays import Ints
from mnemoscope.data.batch import NO_QUESTION, Task

# Of all tokens, how many are asked for; of these, how many are hidden, how many another token.
ASKED, HIDDEN, ANOTHER = 0.15, 0.8, 0.1


class FillIn(Task):
    """What tasks share that ask for the next token or for hidden ones; encoders learn them."""

    models: ClassVar[str] = "encoder"

    objective: Literal["next", "masked"] = Field("masked", description="what is asked for")

    @property
    def hides_answers(self) -> bool:
        """A hidden token cannot be read off the input; the next one can, by who looks ahead."""
        return self.objective == "masked"


def hide(words: Ints, size: int, blank: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Hide some of the words (B, T), at least one a row: what is read, and what is asked.

    ``blank`` is the id that hides a word, the others are below ``size``.
    """
    drawn = rng.random(words.shape)
    asked = drawn < np.maximum(ASKED, drawn.min(1, keepdims=True) + 1e-12)
    fate = rng.random(asked.shape)
    another = rng.integers(size, size=asked.shape)
    read, targets = words.copy(), np.full_like(words, NO_QUESTION)
    read[asked & (fate < HIDDEN)] = blank
    changed = asked & (fate >= HIDDEN) & (fate < HIDDEN + ANOTHER)
    read[changed] = another[changed]
    targets[asked] = words[asked]
    return read, targets
