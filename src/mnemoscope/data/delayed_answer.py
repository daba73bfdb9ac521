"""A made-up language of calls, each answered a fixed number of tokens later."""

from __future__ import annotations

from typing import Self

import numpy as np
from pydantic import Field, model_validator

from mnemoscope.core.seeds import derive
from mnemoscope.data.batch import Batch, FixedLength, Split
from mnemoscope.data.masking import FillIn, hide


class DelayedAnswer(FixedLength, FillIn):
    """The next token, or hidden ones, of sequences of calls and answers.

    Capital letters are calls, small ones answers. ``back`` tokens after a call comes its answer
    with probability ``answered``; all other tokens are calls, drawn at random. With ``back=3`` (M
    hides a token, a dot asks nothing):

        objective=next      tokens   C A D c a d B     targets   A D c a d B A
        objective=masked    tokens   C A D c M d B     targets   . . . . a . .

    Who fills in an answer must look exactly so far back, and who fills in a call as far ahead,
    wherever it stands: a task for relative positions with a known answer. An answer calls nothing,
    so tokens twice as far away say little; a plain repetition would be a wave of its own.
    """

    calls: int = Field(8, ge=2, description="kinds of calls, and of answers")
    length: int = Field(64, ge=4, description="tokens in a sequence")
    back: int = Field(3, ge=1, description="how many tokens after a call its answer comes")
    answered: float = Field(0.9, gt=0, le=1, description="how often it comes")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.back >= self.length:
            raise ValueError(f"in {self.length} tokens no call is answered {self.back} later")
        return self

    @property
    def vocab(self) -> int:
        """Calls, answers, and what hides one."""
        return 2 * self.calls + 1

    def batch(
        self, step: int, size: int, *, seed: int, split: Split = "train", length: int = 128
    ) -> Batch:
        """Return ``size`` sequences."""
        rng = self.generator(step, seed, split)
        words = rng.integers(self.calls, size=(size, self.length + 1))
        # What comes before the first token is heard too, or all sequences would begin in step.
        words[:, : self.back] += self.calls * rng.integers(2, size=(size, self.back))
        heard = rng.random(words.shape) < self.answered
        for place in range(self.back, self.length + 1):
            call = words[:, place - self.back]
            again = heard[:, place] & (call < self.calls)
            words[again, place] = call[again] + self.calls
        if self.objective == "next":
            tokens, targets = words[:, :-1], words[:, 1:]
        else:
            drawn = np.random.default_rng(derive(seed, "blanks", split, step))
            tokens, targets = hide(words[:, :-1], 2 * self.calls, 2 * self.calls, drawn)
        return Batch.episodes(tokens.copy(), targets.copy())
