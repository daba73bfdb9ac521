"""Passages cut anywhere from a text: short texts without a past."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from mnemoscope.core.errors import UserError
from mnemoscope.data.batch import GOLDEN, Batch, Split
from mnemoscope.data.text import Text
from mnemoscope.data.vocabulary import Unit


class Passages(Text):
    """The next token of a passage; every passage is an episode that begins anywhere in the text.

    The text ``memory`` by characters, ``length=4``, a passage that begins at its second letter:

        tokens   e m o r
        targets  m o r y

    Passages to train on are drawn at random; those to validate on lie evenly over the held-out
    text and are the same for every seed. All else is as in `Text`.
    """

    carries: ClassVar[bool] = False

    unit: Unit = Field("bytes", description="what a token is: bytes, characters or bpe")
    length: int = Field(256, ge=1, description="tokens in a passage")

    @model_validator(mode="after")
    def _cut_anywhere(self) -> Self:
        if self.anew is not None:
            raise ValueError("anew is for text that is read in order: here set length instead")
        return self

    @property
    def longest(self) -> int:  # type: ignore[override]
        """Tokens in every passage."""
        return self.length

    def batch(
        self, step: int, size: int, *, seed: int, split: Split = "train", length: int = 128
    ) -> Batch:
        """Return ``size`` passages."""
        ids = self.tokens(split)
        starts = len(ids) - self.length
        if starts < 1:
            raise UserError(
                f"the {split} text has {len(ids)} tokens, too few for a passage of {self.length} "
                "and the token after it; give more text or a smaller length"
            )
        if split == "train":
            first = self.generator(step, seed, split).integers(starts, size=size)
        else:
            evenly = (np.arange(step * size, (step + 1) * size) * GOLDEN) % 1
            first = (evenly * starts).astype(np.int64)
        where = first[:, None] + np.arange(self.length)
        tokens, targets = ids[where].astype(np.int64), ids[where + 1].astype(np.int64)
        return Batch.episodes(tokens, targets)
