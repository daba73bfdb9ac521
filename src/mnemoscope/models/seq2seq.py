"""Recurrent encoder and decoder: one vector between them, or a look back at every word.

Shapes: B rows, S source words, T target tokens, D width, L layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from mnemoscope.memories.recurrent import moved
from mnemoscope.memories.shapes import Inside, Wanted
from mnemoscope.memories.state import State, own
from mnemoscope.memories.words import AttentiveState, WordsState, additive, multiplicative, weigh
from mnemoscope.models.footprint import check as check_size
from mnemoscope.models.kernels import fuses, unfused
from mnemoscope.models.model import Context, Tap
from mnemoscope.models.positions import Positions
from mnemoscope.models.recurrent import CELLS, RecurrentLayer
from mnemoscope.models.source import SourceModel
from mnemoscope.models.translation_config import Bahdanau, Luong, OneVector, RecurrentPair


class RecurrentEncoder(nn.Module):
    """Reads the source with torch's kernels; a bridge turns its last state into the decoder's."""

    def __init__(self, config: RecurrentPair) -> None:
        super().__init__()
        self.cell, kernel = CELLS[config.cell]
        self.kernel = kernel(
            config.width,
            config.width // 2 if config.both_ways else config.width,
            config.layers,
            batch_first=True,
            bidirectional=config.both_ways,
            # torch drops between layers only, and warns when there is no between.
            dropout=config.dropout if config.layers > 1 else 0.0,
        )
        # One for each vector that a cell carries: hidden, and the LSTM's cell.
        parts = len(list(self.cell.start(torch.empty(0)).tensors()))
        self.bridges = nn.ModuleList(
            nn.ModuleList(nn.Linear(config.width, config.width) for _ in range(parts))
            for _ in range(config.layers)
        )

    def forward(self, vectors: Tensor, mask: Tensor | None) -> tuple[Tensor, tuple[State, ...]]:
        """vectors (B, S, D) -> one vector per word (B, S, D), and one state per layer."""
        if not fuses(self.kernel):
            words, last = unfused(self.cell, self.kernel, vectors, mask)
        elif mask is None:
            words, last = self.kernel(vectors)
        else:
            packed = pack_padded_sequence(
                vectors, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False
            )
            words, last = self.kernel(packed)
            words, _ = pad_packed_sequence(words, batch_first=True, total_length=mask.shape[1])
        last = last if isinstance(last, tuple) else (last,)
        batch = vectors.shape[0]
        # Both directions of a layer side by side, (B, L, D).
        ends = [end.view(len(self.bridges), -1, batch, end.shape[2]) for end in last]
        ends = [end.permute(2, 0, 1, 3).reshape(batch, len(self.bridges), -1) for end in ends]
        return words, tuple(self._cross(layer, ends) for layer in range(len(self.bridges)))

    def _cross(self, layer: int, ends: Sequence[Tensor]) -> State:
        bridges: Any = self.bridges[layer]
        hidden, *rest = (bridge(end[:, layer]) for bridge, end in zip(bridges, ends, strict=True))
        kind: Any = type(self.cell.start(hidden))
        # A hidden vector lies in (−1, 1), an LSTM's cell need not.
        state: State = kind(torch.tanh(hidden), *rest)
        return state


class Look(nn.Module):
    """tanh(W [c_t; h_t]) with c_t = Σ_j softmax_j(h_t · W h_j) h_j (Luong 2015, eq. 5 and 8)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.join = nn.Linear(2 * width, width)

    def forward(self, hidden: Tensor, words: WordsState) -> tuple[Tensor, Tensor]:
        """hidden (B, T, D) -> what was found (B, T, D), and the weights (B, T, S)."""
        weights = weigh(multiplicative(self.query(hidden), words.vectors), words.visible)
        found = torch.cat((weights @ words.vectors, hidden), -1)
        return torch.tanh(self.join(found)), weights


class LuongAttention(nn.Module):
    """The layer above recurrent ones: all steps of the target look at once."""

    def __init__(self, config: Luong) -> None:
        super().__init__()
        self.look = Look(config.width)
        self.alignment = Tap()
        self.dropout = nn.Dropout(config.dropout)

    @property
    def wants(self) -> Wanted:
        """The state that it can go on from."""
        return Wanted(WordsState, {"D": self.look.query.in_features})

    def forward(
        self, hidden: Tensor, words: WordsState, context: Context
    ) -> tuple[Tensor, WordsState]:
        """hidden (B, T, D) -> what was found (B, T, D); the words stay what they are."""
        found, weights = self.look(hidden, words)
        self.alignment(weights[:, None])
        return self.dropout(found), words


class StepDecoder(nn.Module):
    """Recurrent layers that get the target token and one more vector at every step."""

    def __init__(self, config: RecurrentPair) -> None:
        super().__init__()
        width = config.width
        sizes = [2 * width] + [width] * (config.layers - 1)
        self.cells = nn.ModuleList(
            RecurrentLayer(config.cell, width, config.dropout, inputs=size) for size in sizes
        )
        self.alignment = Tap()
        self.dropout = nn.Dropout(config.dropout)
        self.width, self.feeds = width, isinstance(config, Luong)

    @property
    def wants(self) -> Wanted:
        """The state that it can go on from."""
        cells: Any = self.cells
        width = {"D": self.width}
        inside: Inside = {
            "cells": tuple(cell.wants for cell in cells),
            "words": Wanted(WordsState, width),
        }
        return Wanted(AttentiveState, width, inside, {"found": self.feeds})

    def drives(self, vectors: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        """What the tokens (B, T, D) add to the first layer, step by step, and the other weights."""
        first: Any = self.cells[0]
        weights, width = first.weights, vectors.shape[2]
        ours = weights._replace(inputs=weights.inputs[:, :width])
        return first.cell.drive(vectors, ours).unbind(1), weights.inputs[:, width:]

    def advance(
        self, drive: Tensor, states: Sequence[State], moves: Tensor | None
    ) -> tuple[Tensor, list[State]]:
        """One step of every layer: the last one's hidden (B, D), and the states."""
        after: list[State] = []
        hidden = drive
        for number, (layer, state) in enumerate(zip(self.cells, states, strict=True)):
            part: Any = layer
            if number:
                drive = part.cell.drive(hidden[:, None], part.weights)[:, 0]
            new, _ = part.cell.step(drive, state, part.weights)
            new = new if moves is None else moved(moves, new, state)
            after.append(new)
            hidden = new.hidden if number + 1 == len(self.cells) else part.dropout(new.hidden)
        return hidden, after


class BahdanauDecoder(StepDecoder):
    """Looks before each step: c_t from s_{t−1}, then s_t from y_{t−1} and c_t (Bahdanau 2015)."""

    def __init__(self, config: Bahdanau) -> None:
        super().__init__(config)
        width = config.width
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width, bias=False)
        self.direction = nn.Parameter(torch.empty(width).normal_(std=width**-0.5))
        self.join = nn.Linear(3 * width, width)

    def forward(
        self, vectors: Tensor, state: AttentiveState, context: Context
    ) -> tuple[Tensor, AttentiveState]:
        """vectors (B, T, D) -> tanh(W [s_t; c_t; y_{t−1}]) (B, T, D), and the state."""
        steps, others = self.drives(vectors)
        words, cells = state.words, state.cells
        keys = self.key(words.vectors)
        top: Any = cells[-1]
        hidden = top.hidden
        spoken, found, weights = [], [], []
        for drive, moves in zip(steps, _moves(context.mask, len(steps)), strict=True):
            query = self.query(hidden)[:, None].to(keys.dtype)
            look = weigh(additive(query, keys, self.direction.to(keys.dtype)), words.visible)
            seen = (look @ words.vectors.to(look.dtype))[:, 0]
            hidden, new = self.advance(drive + F.linear(seen, others), cells, moves)
            cells = tuple(new)
            spoken.append(hidden)
            found.append(seen)
            weights.append(look)
        if self.alignment.watched:
            self.alignment(torch.stack(weights, 2))  # (B, 1, T, S)
        joined = torch.cat((torch.stack(spoken, 1), torch.stack(found, 1), vectors), -1)
        return self.dropout(torch.tanh(self.join(joined))), AttentiveState(cells, words)


class FeedingDecoder(StepDecoder):
    """Looks after each step and hands what it found to the next (Luong 2015, §3.3)."""

    def __init__(self, config: Luong) -> None:
        super().__init__(config)
        self.look = Look(config.width)

    def forward(
        self, vectors: Tensor, state: AttentiveState, context: Context
    ) -> tuple[Tensor, AttentiveState]:
        """vectors (B, T, D) -> what was found after every step (B, T, D), and the state."""
        steps, others = self.drives(vectors)
        words, cells, found = state.words, state.cells, state.found
        assert found is not None
        outputs, weights = [], []
        for drive, moves in zip(steps, _moves(context.mask, len(steps)), strict=True):
            hidden, new = self.advance(drive + F.linear(found, others), cells, moves)
            cells = tuple(new)
            looked, weight = self.look(hidden[:, None], words)
            latest = looked[:, 0]
            found = latest if moves is None else torch.where(moves, latest, found)
            outputs.append(found)
            weights.append(weight)
        if self.alignment.watched:
            self.alignment(torch.stack(weights, 2))
        return self.dropout(torch.stack(outputs, 1)), AttentiveState(cells, words, found)


def _moves(mask: Tensor | None, steps: int) -> Sequence[Tensor | None]:
    return [None] * steps if mask is None else mask.unsqueeze(-1).unbind(1)


class Seq2SeqModel(SourceModel):
    """A recurrent encoder, and a decoder that starts from its last state."""

    config: RecurrentPair

    def __init__(self, config: RecurrentPair, layers: Sequence[nn.Module]) -> None:
        super().__init__(config, layers, Positions("none", config.width), norm=False)
        self.encoder = RecurrentEncoder(config)

    def remember(self, vectors: Tensor, mask: Tensor | None) -> tuple[State, ...]:
        """One vector (two for LSTM) a layer; with attention, one more for every word."""
        vectors, cells = self.encoder(vectors, mask)
        if isinstance(self.config, OneVector):
            return tuple(cells)
        words = WordsState(own(vectors), mask)
        if isinstance(self.config, Luong) and not self.config.feeding:
            return (*cells, words)
        nothing = torch.zeros_like(vectors[:, 0]) if isinstance(self.config, Luong) else None
        return (AttentiveState(tuple(cells), words, nothing),)


def build(config: RecurrentPair) -> Seq2SeqModel:
    """Build the model that a config describes."""
    check_size(config)
    if isinstance(config, Bahdanau):
        return Seq2SeqModel(config, [BahdanauDecoder(config)])
    if isinstance(config, Luong) and config.feeding:
        return Seq2SeqModel(config, [FeedingDecoder(config)])
    layers: list[nn.Module] = [
        RecurrentLayer(config.cell, config.width, config.dropout) for _ in range(config.layers)
    ]
    if isinstance(config, Luong):
        layers.append(LuongAttention(config))
    return Seq2SeqModel(config, layers)
