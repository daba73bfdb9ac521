"""Models that read a source first: ``state = model.encode(source)``, then ``model(tokens, state)``.

The state *is* what the encoder remembers. Shapes: B rows, S source words, T tokens, D width.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnemoscope.core.errors import UserError
from mnemoscope.memories.positions import Positions
from mnemoscope.memories.state import State, StreamState
from mnemoscope.models.model import Output, SequenceModel, check_ids, check_mask
from mnemoscope.models.seq2seq.config import Sourced


class SourceModel(SequenceModel):
    """A decoder whose streams begin with what an encoder remembers of a source."""

    config: Sourced

    def __init__(
        self, config: Sourced, layers: Iterable[nn.Module], positions: Positions, norm: bool
    ) -> None:
        super().__init__(config, layers, positions, norm)
        self.source_embedding = nn.Embedding(config.source_vocab, config.width)
        nn.init.normal_(self.source_embedding.weight, std=config.width**-0.5)
        if config.embeddings != "separate":
            self.readout.weight = self.embedding.weight
        if config.embeddings == "shared":
            self.source_embedding.weight = self.embedding.weight

    @abstractmethod
    def remember(self, vectors: Tensor, mask: Tensor | None) -> tuple[State, ...]:
        """Source vectors (B, S, D), mask (B, S) -> one state for each layer of the decoder."""

    def encode(self, source: Tensor, mask: Tensor | None = None) -> StreamState:
        """Read source ids (B, S); ``mask`` is false after the end of a row.

        The state is where the target begins; continued twice, it gives two translations.
        """
        if mask is not None:
            mask = self._right_padded(source, mask)
        check_ids(source, self.config.source_vocab, "a source", "source")
        vectors, count = self.source_embedding(source), None
        if self.positions.kind != "none":
            # Padding is on the right, so a word's column is its position.
            positions = torch.arange(source.shape[1], device=source.device).expand(source.shape)
            vectors, _ = self.positions(vectors, positions)
            count = torch.zeros(source.shape[0], dtype=torch.long, device=source.device)
        if self.training:
            vectors = F.dropout(vectors, self.config.dropout)
        return StreamState(self.remember(vectors, mask), count, self._owner)

    def forward(
        self,
        tokens: Tensor,
        state: StreamState | None = None,
        mask: Tensor | None = None,
        silent: bool = False,
    ) -> Output:
        """Read target tokens (B, T) after ``state``, which `encode` gave or ``out.state`` was."""
        if state is None:
            raise UserError(
                "this model reads a source first: state = model.encode(source), "
                "then model(tokens, state)"
            )
        return super().forward(tokens, state, mask, silent)

    def _right_padded(self, source: Tensor, mask: Tensor) -> Tensor | None:
        """The mask after a look at it, None when it hides nothing."""
        check_mask(mask, source)
        if not bool(mask[:, :1].all()):
            row = int((~mask[:, 0]).nonzero()[0])
            raise UserError(f"row {row} of the source is empty or padded on the left")
        if bool((mask[:, 1:] & ~mask[:, :-1]).any()):
            raise UserError("a source is padded on the right only: its mask goes true, then false")
        return None if bool(mask.all()) else mask
