"""The loss of segments with open entries, from the whole model or from kept hidden states.

Shapes: R rows, T tokens, E entries, D width, V words.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from mnemoscope.huggingface import blocks as parts
from mnemoscope.huggingface.loading import check_ids
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
        check_ids("the model", self.segments.tokens.cpu(), parts.words_of(self.model))
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

    def hidden_size(self) -> float:
        """How large hidden states behind the block are: the median root mean square of a token."""
        first = self.segments[torch.arange(min(AT_ONCE, len(self.segments)), device=self.device)]
        if self.hidden is None:
            with self.memory.under(None):
                hidden, _ = parts.hidden_behind(
                    self.model, self.memory.blocks, self.memory.index, first.tokens, first.mask
                )
        else:
            hidden = self.hidden[: len(first), : first.tokens.shape[1]]
        return float(hidden.float().square().mean(2).sqrt()[first.mask > 0].median())

    def _read(self, rows: Tensor, chosen: Tensor | None) -> tuple[Tensor, Tensor]:
        """Logits (R, T, V) of segments ``rows`` (R,) with entries (R, E), and what is to follow.

        That is (R, T), -100 where nothing is predicted, as at the last token.
        """
        batch = self.segments[rows]
        with ExitStack() as stack:
            if self.hidden is not None:
                hidden = self.hidden[rows, : batch.tokens.shape[1]]
                stack.enter_context(parts.starting_behind(self.memory.blocks, hidden, self.sizes))
            stack.enter_context(self.memory.under(chosen))
            out = self.model(input_ids=batch.tokens, attention_mask=batch.mask, use_cache=False)
        return out.logits.float(), F.pad(batch.targets[:, 1:], (0, 1), value=-100)

    def logits(self, rows: Tensor, chosen: Tensor | None) -> tuple[Tensor, Tensor]:
        """Logits (R, T - 1, V) of segments ``rows`` (R,) with entries (R, E), and targets."""
        logits, targets = self._read(rows, chosen)
        return logits[:, :-1], targets[:, :-1]

    def losses(self, rows: Tensor, chosen: Tensor | None) -> Tensor:
        """Mean loss per token of each segment, (R,)."""
        return _losses(*self._read(rows, chosen))

    def losses_and_recited(self, rows: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """The same, and whether all tokens of a segment are safely the likeliest, (R,).

        That is, twice as likely as any other: enough for another machine or precision to say them.
        """
        logits, targets = self._read(rows, chosen)
        best, tokens = logits.detach().topk(2)
        said = (tokens[..., 0] == targets) & (best[..., 0] - best[..., 1] > math.log(2))
        return _losses(logits, targets), (said | (targets == -100)).all(1)

    @torch.no_grad()
    def recited(self, chosen: Tensor) -> int:
        """How many documents are said word for word with entries (S, E) of their segments.

        Every token is then the likeliest one, given what stands before it in its segment.
        """
        failed: set[int] = set()
        for rows in torch.split(torch.arange(len(self.segments), device=self.device), AT_ONCE):
            logits, targets = self.logits(rows, chosen[rows])
            wrong = ((logits.argmax(-1) != targets) & (targets != -100)).any(1)
            failed |= set(self.segments.owner[rows][wrong].tolist())
        return len(set(self.segments.owner.tolist())) - len(failed)

    @torch.no_grad()
    def all_losses(self, chosen: Tensor | None, rows: Tensor | None = None) -> Tensor:
        """Losses of many segments, with no memory, one (E,), or each its own (S, E)."""
        rows = torch.arange(len(self.segments)) if rows is None else rows
        found = []
        for some in torch.split(torch.arange(len(rows), device=rows.device), AT_ONCE):
            entries = chosen
            if chosen is not None:
                entries = chosen[some] if chosen.dim() == 2 else chosen.expand(len(some), -1)
            found.append(self.losses(rows[some], entries))
        return torch.cat(found)


def _losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean loss per token, (R,), of logits (R, T, V) and targets (R, T)."""
    # Flat, and with the last token, because a copy of all logits takes longer than their loss.
    each = F.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=-100, reduction="none"
    )
    return each.view_as(targets).sum(1) / (targets != -100).sum(1)
