"""The translator ``bahdanau``: additive attention before each step (Bahdanau 2015).

Shapes: B rows, S source words, T target tokens, D width.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnemoscope.memories.layer import Context
from mnemoscope.memories.recurrent import by_step
from mnemoscope.memories.state import State, own
from mnemoscope.models.seq2seq.cross_attention import AttentiveState, SourceState, additive, weigh
from mnemoscope.models.seq2seq.recurrent import RecurrentPair, StepDecoder


class Bahdanau(RecurrentPair):
    """Before each word the decoder attends to all source words (Bahdanau 2015)."""

    memory: Literal["bahdanau"] = "bahdanau"

    def decoder(self) -> list[nn.Module]:
        """One module for all layers, which go step by step."""
        return [BahdanauDecoder(self)]

    def decoder_state(
        self, cells: tuple[State, ...], vectors: Tensor, mask: Tensor | None
    ) -> tuple[State, ...]:
        """The last states, and every word."""
        return (AttentiveState(cells, SourceState(own(vectors), mask)),)


class BahdanauDecoder(StepDecoder):
    """Attends before each step: c_t from s_{t−1}, then s_t from y_{t−1} and c_t (Bahdanau 2015)."""

    def __init__(self, config: Bahdanau) -> None:
        super().__init__(config, feeds=False)
        width = config.width
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width, bias=False)
        self.direction = nn.Parameter(torch.empty(width).normal_(std=width**-0.5))
        self.join = nn.Linear(3 * width, width)

    def forward(
        self, vectors: Tensor, state: AttentiveState, context: Context
    ) -> tuple[Tensor, AttentiveState]:
        """vectors (B, T, D) -> tanh(W [s_t; c_t; y_{t−1}]) (B, T, D), and the state."""
        steps, others = self.project(vectors)
        words, cells = state.words, state.cells
        keys = self.key(words.vectors)
        top: Any = cells[-1]
        hidden = top.hidden
        spoken, contexts, weights = [], [], []
        for inputs, moves in zip(steps, by_step(context.mask, len(steps)), strict=True):
            query = self.query(hidden)[:, None].to(keys.dtype)
            weight = weigh(additive(query, keys, self.direction.to(keys.dtype)), words.visible)
            vector = (weight @ words.vectors.to(weight.dtype))[:, 0]
            hidden, new = self.advance(inputs + F.linear(vector, others), cells, moves)
            cells = tuple(new)
            spoken.append(hidden)
            contexts.append(vector)
            weights.append(weight)
        if self.alignment.watched:
            self.alignment(torch.stack(weights, 2))  # (B, 1, T, S)
        joined = torch.cat((torch.stack(spoken, 1), torch.stack(contexts, 1), vectors), -1)
        return self.dropout(torch.tanh(self.join(joined))), AttentiveState(cells, words)
