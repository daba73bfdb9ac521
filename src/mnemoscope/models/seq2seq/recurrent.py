"""What recurrent translators share: config, encoder, model, and a decoder that goes step by step.

Shapes: B rows, S source words, T target tokens, D width, L layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from mnemoscope.core.registry import find
from mnemoscope.memories.kernels import fuses
from mnemoscope.memories.layer import Tap
from mnemoscope.memories.positions import Positions
from mnemoscope.memories.recurrent import Cell, RecurrentLayer, moved, scan, weights_of
from mnemoscope.memories.shapes import Inside, Wanted
from mnemoscope.memories.state import State
from mnemoscope.models.footprint import check as check_size
from mnemoscope.models.seq2seq.config import Sourced
from mnemoscope.models.seq2seq.cross_attention import AttentiveState, SourceState
from mnemoscope.models.seq2seq.source import SourceModel


class RecurrentPair(Sourced):
    """Two recurrent networks, one that reads and one that speaks."""

    cell: Literal["rnn", "lstm", "gru"] = Field("gru", description="the cells of both networks")
    both_ways: bool = Field(True, description="read the source forwards and backwards")

    @model_validator(mode="after")
    def _halves(self) -> Self:
        if self.both_ways and self.width % 2:
            raise ValueError(f"width {self.width} is odd: each direction of reading takes half")
        return self

    @property
    def recurrent_cell(self) -> Cell:
        """The cell that the memory of that name has."""
        cell: Cell = find("memory", self.cell).cell
        return cell

    @property
    def layer_weights(self) -> int:
        """Two matrices for every gate, of the encoder and of the decoder."""
        return 4 * len(self.recurrent_cell.gates) * self.width**2

    def decoder(self) -> list[nn.Module]:
        """The layers that speak; these know nothing of the source but their first state."""
        cell = self.recurrent_cell
        return [RecurrentLayer(cell, self.width, self.dropout) for _ in range(self.layers)]

    def decoder_state(
        self, cells: tuple[State, ...], vectors: Tensor, mask: Tensor | None
    ) -> tuple[State, ...]:
        """What they start from, given last states, encoder outputs (B, S, D) and mask (B, S)."""
        return cells

    def build(self) -> Seq2SeqModel:
        """Return the encoder and the decoder."""
        check_size(self)
        return Seq2SeqModel(self, self.decoder())


class RecurrentEncoder(nn.Module):
    """Reads the source with torch's kernels; a bridge turns its last state into the decoder's."""

    def __init__(self, config: RecurrentPair) -> None:
        super().__init__()
        self.cell = config.recurrent_cell
        self.kernel = self.cell.kernel(
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


def unfused(
    cell: Cell, kernel: nn.RNNBase, vectors: Tensor, mask: Tensor | None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """What a kernel returns, step by step: all its layers, both ways, dropout between layers.

    vectors (B, T, I); mask (B, T), false in the padding at the end of a row. Returns outputs
    (B, T, ways · D), zeros in padding, and the last state's tensors (layers · ways, B, D).
    """
    last = []
    for layer in range(kernel.num_layers):
        if layer:
            vectors = F.dropout(vectors, kernel.dropout, kernel.training)
        sides = []
        for backwards in (False, True) if kernel.bidirectional else (False,):
            # From behind, padding comes first, and rows do not move in it.
            given, moves = (_flip(one) if backwards else one for one in (vectors, mask))
            assert given is not None
            start = cell.start(given.new_zeros(len(given), kernel.hidden_size))
            weights = weights_of(kernel, layer, backwards)
            outputs, state, _ = scan(cell, given, start, weights, moves)
            sides.append(outputs.flip(1) if backwards else outputs)
            last.append([tensor for _, tensor in state.tensors()])
        vectors = torch.cat(sides, -1)
        if mask is not None:
            vectors = vectors.masked_fill(~mask[..., None], 0.0)
    return vectors, tuple(torch.stack(parts) for parts in zip(*last, strict=True))


def _flip(steps: Tensor | None) -> Tensor | None:
    return None if steps is None else steps.flip(1)


class StepDecoder(nn.Module):
    """Recurrent layers that get the target token and one more vector at every step."""

    def __init__(self, config: RecurrentPair, feeds: bool) -> None:
        super().__init__()
        width = config.width
        sizes = [2 * width] + [width] * (config.layers - 1)
        self.cells = nn.ModuleList(
            RecurrentLayer(config.recurrent_cell, width, config.dropout, inputs=size)
            for size in sizes
        )
        self.alignment = Tap()
        self.dropout = nn.Dropout(config.dropout)
        self.width, self.feeds = width, feeds

    @property
    def wants(self) -> Wanted:
        """The state that it can continue from."""
        cells: Any = self.cells
        width = {"D": self.width}
        inside: Inside = {
            "cells": tuple(cell.wants for cell in cells),
            "words": Wanted(SourceState, width),
        }
        return Wanted(AttentiveState, width, inside, {"found": self.feeds})

    def project(self, vectors: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        """What tokens (B, T, D) project to in the first layer, by step; and the other weights."""
        first: Any = self.cells[0]
        weights, width = first.weights, vectors.shape[2]
        ours = weights._replace(inputs=weights.inputs[:, :width])
        return first.cell.project(vectors, ours).unbind(1), weights.inputs[:, width:]

    def advance(
        self, inputs: Tensor, states: Sequence[State], moves: Tensor | None
    ) -> tuple[Tensor, list[State]]:
        """One step of every layer: the last one's hidden (B, D), and the states."""
        after: list[State] = []
        hidden = inputs
        for number, (layer, state) in enumerate(zip(self.cells, states, strict=True)):
            part: Any = layer
            if number:
                inputs = part.cell.project(hidden[:, None], part.weights)[:, 0]
            new, _ = part.cell.step(inputs, state, part.weights)
            new = new if moves is None else moved(moves, new, state)
            after.append(new)
            hidden = new.hidden if number + 1 == len(self.cells) else part.dropout(new.hidden)
        return hidden, after


class Seq2SeqModel(SourceModel):
    """A recurrent encoder, and a decoder that starts from its last state."""

    config: RecurrentPair

    def __init__(self, config: RecurrentPair, layers: Sequence[nn.Module]) -> None:
        super().__init__(config, layers, Positions("none", config.width), norm=False)
        self.encoder = RecurrentEncoder(config)

    def remember(self, vectors: Tensor, mask: Tensor | None) -> tuple[State, ...]:
        """One vector (two for LSTM) a layer; with attention, one more for every word."""
        vectors, cells = self.encoder(vectors, mask)
        return self.config.decoder_state(tuple(cells), vectors, mask)
