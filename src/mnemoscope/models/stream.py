"""Any model that continues from a state, and all that it carries, in bytes.

`Stream.read` continues from a state, and `StreamState` knows its size and how to be saved. That is
the one definition of state size here: the bytes from which a fresh process continues to the same
logits, bit for bit (`mnemoscope.fresh_process` is that process).

Shapes: B rows, T tokens, V words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from mnemoscope.core.errors import UserError
from mnemoscope.memories.state import StreamState
from mnemoscope.models.inputs import Encode, Inputs, token_batch
from mnemoscope.models.model import Output


@dataclass(frozen=True, eq=False)
class Stream:
    """A model that carries on from a state: ``call(tokens (B, T), state) -> Output``.

    limit   most tokens that one stream can have, None when there is no end
    encode  texts -> token ids of each; None when only token ids can be read
    """

    call: Callable[..., Output]
    name: str
    vocab: int
    limit: int | None
    device: torch.device
    encode: Encode | None = None

    @torch.no_grad()
    def read(
        self, tokens: Inputs, state: StreamState | None = None, segment: int | None = None
    ) -> Output:
        """Read tokens (B, T), ``segment`` at a time: logits (B, T, V), and the state after them.

        ``tokens`` may be a text or a list of token ids as well, or several of one length.
        """
        tokens = token_batch(tokens, self.encode, self.name)
        if self.limit is not None and tokens.shape[1] > self.limit:
            raise UserError(
                f"{self.name} can read {self.limit} tokens in one stream, not {tokens.shape[1]}: "
                "ask for less, with shorter ages or fewer tokens"
            )
        logits = []
        for part in torch.split(tokens.to(self.device), segment or tokens.shape[1], 1):
            out = self.call(part, state)
            logits.append(out.logits)
            state = out.state
        assert state is not None
        return Output(torch.cat(logits, 1), state)

    def bytes_after(self, tokens: int, segment: int | None = None) -> int:
        """Measured bytes that one stream carries after so many tokens."""
        some = torch.zeros(1, tokens, dtype=torch.long)
        return self.read(some, segment=segment).state.nbytes
