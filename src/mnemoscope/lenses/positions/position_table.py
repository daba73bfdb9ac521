"""The position embeddings that a model adds to its words, if it adds any."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mnemoscope.memories.positions import waves
from mnemoscope.models.model import SequenceModel
from mnemoscope.models.seq2seq.source import SourceModel

NAMES = ("position_embeddings", "wpe", "embed_positions", "position_embedding", "pos_emb")


def position_table(model: nn.Module, length: int) -> Tensor | None:
    """What is added at the first ``length`` positions, (T, D); None without absolute positions."""
    if isinstance(model, SequenceModel):
        positions = model.positions
        if isinstance(model, SourceModel) or positions.kind == "sinusoidal":
            return waves(torch.arange(length), positions.width)
        return (
            positions.table.weight.detach()[:length].cpu() if positions.kind == "learned" else None
        )
    for path, module in model.named_modules():
        if path.rpartition(".")[2] in NAMES and isinstance(module, nn.Embedding):
            # RoBERTa and BART count positions from after their padding.
            first = 0 if module.padding_idx is None else module.padding_idx + 1
            first = getattr(module, "offset", first)
            return module.weight.detach()[first : first + length].cpu()
    return None
