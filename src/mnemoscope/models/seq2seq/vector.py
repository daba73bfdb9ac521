"""The translator ``vector``: one state between encoder and decoder, and nothing else."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from mnemoscope.memories.state import State
from mnemoscope.models.seq2seq.recurrent import RecurrentPair


class OneVector(RecurrentPair):
    """The decoder starts from the encoder's last state and knows nothing else (Sutskever 2014)."""

    memory: Literal["vector"] = "vector"

    def decoder(self) -> list[nn.Module]:
        """Recurrent layers."""
        return self.recurrent_layers()

    def decoder_state(
        self, cells: tuple[State, ...], vectors: Tensor, mask: Tensor | None
    ) -> tuple[State, ...]:
        """The last states."""
        return cells
