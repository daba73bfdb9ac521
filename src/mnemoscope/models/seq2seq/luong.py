"""The translator ``luong``: multiplicative attention after each step (Luong 2015).

Shapes: B rows, S source words, T target tokens, D width.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from mnemoscope.memories.layer import Context, Tap
from mnemoscope.memories.recurrent import by_step
from mnemoscope.memories.shapes import Wanted
from mnemoscope.memories.state import State, own
from mnemoscope.models.seq2seq.cross_attention import (
    AttentiveState,
    SourceState,
    multiplicative,
    weigh,
)
from mnemoscope.models.seq2seq.recurrent import RecurrentPair, StepDecoder


class Luong(RecurrentPair):
    """After each step the decoder attends to all source words (Luong 2015)."""

    memory: Literal["luong"] = "luong"
    feeding: bool = Field(False, description="the output of attention goes into the next step")

    def decoder(self) -> list[nn.Module]:
        """Recurrent layers below one of attention, or step by step if that is fed back."""
        if self.feeding:
            return [FeedingDecoder(self)]
        return [*super().decoder(), LuongAttention(self)]

    def decoder_state(
        self, cells: tuple[State, ...], vectors: Tensor, mask: Tensor | None
    ) -> tuple[State, ...]:
        """The last states, and every word."""
        words = SourceState(own(vectors), mask)
        if self.feeding:
            return (AttentiveState(cells, words, torch.zeros_like(vectors[:, 0])),)
        return (*cells, words)


class Alignment(nn.Module):
    """tanh(W [c_t; h_t]) with c_t = Σ_j softmax_j(h_t · W h_j) h_j (Luong 2015, eq. 5 and 8)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.join = nn.Linear(2 * width, width)

    def forward(self, hidden: Tensor, words: SourceState) -> tuple[Tensor, Tensor]:
        """hidden (B, T, D) -> output (B, T, D), and the weights (B, T, S)."""
        weights = weigh(multiplicative(self.query(hidden), words.vectors), words.visible)
        joined = torch.cat((weights @ words.vectors, hidden), -1)
        return torch.tanh(self.join(joined)), weights


class LuongAttention(nn.Module):
    """The layer above recurrent ones: attention of all steps of the target at once."""

    def __init__(self, config: Luong) -> None:
        super().__init__()
        self.look = Alignment(config.width)  # the name that checkpoints know
        self.alignment = Tap()
        self.dropout = nn.Dropout(config.dropout)

    @property
    def wants(self) -> Wanted:
        """The state that it can continue from."""
        return Wanted(SourceState, {"D": self.look.query.in_features})

    def forward(
        self, hidden: Tensor, words: SourceState, context: Context
    ) -> tuple[Tensor, SourceState]:
        """hidden (B, T, D) -> output (B, T, D); the source stays what it is."""
        output, weights = self.look(hidden, words)
        self.alignment(weights[:, None])
        return self.dropout(output), words


class FeedingDecoder(StepDecoder):
    """Attends after each step and feeds the output into the next (Luong 2015, §3.3)."""

    def __init__(self, config: Luong) -> None:
        super().__init__(config, feeds=True)
        self.look = Alignment(config.width)

    def forward(
        self, vectors: Tensor, state: AttentiveState, context: Context
    ) -> tuple[Tensor, AttentiveState]:
        """vectors (B, T, D) -> output of every step (B, T, D), and the state."""
        steps, others = self.project(vectors)
        words, cells, output = state.words, state.cells, state.found
        assert output is not None
        outputs, weights = [], []
        for inputs, moves in zip(steps, by_step(context.mask, len(steps)), strict=True):
            hidden, new = self.advance(inputs + F.linear(output, others), cells, moves)
            cells = tuple(new)
            attended, weight = self.look(hidden[:, None], words)
            latest = attended[:, 0]
            output = latest if moves is None else torch.where(moves, latest, output)
            outputs.append(output)
            weights.append(weight)
        if self.alignment.watched:
            self.alignment(torch.stack(weights, 2))
        return self.dropout(torch.stack(outputs, 1)), AttentiveState(cells, words, output)
