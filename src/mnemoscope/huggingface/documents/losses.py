"""The loss of segments under open entries, from the whole model or from kept hidden states.

Shapes: R rows, T tokens, E entries, D width, V words.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from mnemoscope.core.errors import UserError
from mnemoscope.huggingface import blocks as parts
from mnemoscope.huggingface.texts import Documents, Segments

if TYPE_CHECKING:
    from mnemoscope.huggingface.documents.memory import DocumentMemory

# Segments read at once when nothing is learnt.
AT_ONCE = 32


class Reader:
    """Reads segments of documents through a memory.

    With ``keep`` the base computes the hidden states below the memory once, and every later call
    runs only what is above; hooks and all else are the same, so the numbers are too.
    """

    def __init__(self, memory: DocumentMemory, given: Documents, keep: bool) -> None:
        self.memory, self.model = memory, memory.model
        self.device = memory.store.values.device
        self.segments = given.segments(parts.context_of(self.model)).to(self.device)
        words = parts.words_of(self.model)
        low, high = (int(bound) for bound in self.segments.tokens.aminmax())
        if low < 0 or high >= words:
            raise UserError(
                f"the documents hold token id {low if low < 0 else high}, but the model reads 0 "
                f"to {words - 1}: use the tokenizer that belongs to the model"
            )
        self.hidden: Tensor | None = None
        self.sizes: list[int] = []
        if keep:
            self.keep_hidden()

    @staticmethod
    def bytes_of(memory: DocumentMemory, segments: Segments) -> int:
        """What keeping the hidden states would take."""
        weight = next(memory.model.parameters())
        size: int = weight.element_size()
        return segments.tokens.numel() * parts.width_of(memory.model) * size

    def keep_hidden(self) -> None:
        """Compute the hidden states below the memory, once."""
        whole = []
        with self.memory.under(None):
            for batch in self.segments.batches(AT_ONCE):
                hidden, self.sizes = parts.hidden_behind(
                    self.model, self.memory.blocks, self.memory.index, batch.tokens, batch.mask
                )
                short = self.segments.tokens.shape[1] - hidden.shape[1]
                whole.append(F.pad(hidden, (0, 0, 0, short)))
        self.hidden = torch.cat(whole)

    def logits(self, rows: Tensor, chosen: Tensor | None) -> tuple[Tensor, Tensor]:
        """Logits (R, T - 1, V) of segments ``rows`` (R,) under entries (R, E), and targets."""
        batch = self.segments[rows]
        with ExitStack() as stack:
            if self.hidden is not None:
                hidden = self.hidden[rows, : batch.tokens.shape[1]]
                stack.enter_context(parts.starting_behind(self.memory.blocks, hidden, self.sizes))
            stack.enter_context(self.memory.under(chosen))
            out = self.model(input_ids=batch.tokens, attention_mask=batch.mask, use_cache=False)
        return out.logits[:, :-1].float(), batch.targets[:, 1:]

    def losses(self, rows: Tensor, chosen: Tensor | None) -> Tensor:
        """Mean loss per token of each segment, (R,)."""
        logits, targets = self.logits(rows, chosen)
        each = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=-100, reduction="none")
        return each.sum(1) / (targets != -100).sum(1)

    @torch.no_grad()
    def all_losses(self, chosen: Tensor | None, rows: Tensor | None = None) -> Tensor:
        """Losses of many segments, under no memory or under one (E,) or each its own (S, E)."""
        rows = torch.arange(len(self.segments)) if rows is None else rows
        found = []
        for some in torch.split(torch.arange(len(rows), device=rows.device), AT_ONCE):
            entries = chosen
            if chosen is not None:
                entries = chosen[some] if chosen.dim() == 2 else chosen.expand(len(some), -1)
            found.append(self.losses(rows[some], entries))
        return torch.cat(found)
