"""An encoder on its own: the layers that read for a translator, trained to fill in words instead.

Shapes: B rows, T tokens, D width, V outputs.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnemoscope.core.errors import UserError
from mnemoscope.memories.positions import Positions
from mnemoscope.memories.state import StreamState
from mnemoscope.models.encoder.config import Encoder
from mnemoscope.models.encoder.layers import EncoderLayer, read
from mnemoscope.models.model import Output, SequenceModel


class EncoderModel(SequenceModel):
    """Reads a sentence whole and says something at every word; nothing is carried on."""

    config: Encoder

    def __init__(self, config: Encoder) -> None:
        layers = [EncoderLayer(config, config.causal) for _ in range(config.layers)]
        positions = Positions(
            config.positions,
            config.width,
            context=config.context,
            head=config.width // config.heads,
        )
        super().__init__(config, layers, positions, norm=config.norm == "pre")
        self.readout.weight = self.embedding.weight
        for module in self.layers.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(
        self,
        tokens: Tensor,
        state: StreamState | None = None,
        mask: Tensor | None = None,
        silent: bool = False,
        asked: Tensor | None = None,
    ) -> Output:
        """Read tokens (B, T) -> logits (B, T, V); ``mask`` is false where a token is padding.

        With ``asked`` (B, T) only n tokens that it is true of are read out: logits (1, n, V).
        """
        if state is not None and state.layers:
            raise UserError("an encoder reads every sentence whole: it continues from no state")
        self._check(tokens, None, mask)
        count = torch.zeros(len(tokens), dtype=torch.long, device=tokens.device)
        vectors, rotation = self.embedding(tokens), None
        if self.positions.kind != "none":
            vectors, rotation = self.positions(vectors, self._positions(tokens, count, None))
        if self.training:
            vectors = F.dropout(vectors, self.config.dropout)
        vectors = read(self.layers, vectors, mask, rotation, recompute=self.config.recompute)
        if silent:
            vectors = vectors[:, :0]
        elif asked is not None:
            vectors = vectors[asked][None]
        return Output(self.readout(self.norm(vectors)), StreamState((), count, self._owner))
