"""The translator ``vector``: one state between encoder and decoder, and nothing else."""

from __future__ import annotations

from typing import Literal

from mnemoscope.models.seq2seq.recurrent import RecurrentPair


class OneVector(RecurrentPair):
    """The decoder starts from the encoder's last state and knows nothing else (Sutskever 2014)."""

    memory: Literal["vector"] = "vector"
