"""Predict the next character of a text."""

from __future__ import annotations

from pydantic import Field

from mnemoscope.data.text import Text
from mnemoscope.data.vocabulary import Unit


class Characters(Text):
    """The next character of a text; all else is as in `Text`.

    The text ``memory``, 1 row, length 5:

        tokens   m e m o r
        targets  e m o r y
    """

    unit: Unit = Field("characters", description="what a token is: bytes, characters or bpe")
