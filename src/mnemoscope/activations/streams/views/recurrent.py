"""RNN, LSTM and GRU: gates, and what would be missing had a token not been read.

Shapes: T tokens of the segment, N tokens read so far, M streams, G gates, D width.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.hooks import Seen
from mnemoscope.activations.streams.blank import Blank, emptied
from mnemoscope.activations.streams.views.view import (
    Floats,
    Json,
    Part,
    Pick,
    listed,
    one_of,
    packed,
)
from mnemoscope.memories.recurrent import Cell, RecurrentLayer, Weights

STATE = "state"

# The gate that keeps, where a cell has one.
KEEPS = ("forget", "update", "candidate")
# Streams that differ by less than this share of all differences are the same for every reader.
FAINT = 1e-5


class Skipped:
    """The state a layer would be in, had it skipped one token: one stream for every token."""

    def __init__(self) -> None:
        self.tokens = np.zeros(0, dtype=np.int64)  # (M,) which token a stream skipped
        self.streams: Any = None  # a state of M rows

    def read(self, cell: Cell, weights: Weights, inputs: Tensor, state: Any, first: int) -> Floats:
        """How much the state after each of T tokens owes to every token so far, (T, N).

        inputs (1, T, G) are the input's part of the pre-activations, ``state`` the true one before.
        A share is the difference |state − state had the token been skipped|, added up over units
        and divided by the sum over all tokens.
        """
        length = inputs.shape[1]
        shares = np.zeros((length, first + length))
        for step, one in enumerate(inputs[0].unbind(0)):
            without = state
            state, _ = cell.step(one[None], state, weights)
            if self.streams is not None:
                moved, _ = cell.step(one.expand(len(self.tokens), -1), self.streams, weights)
                without = _joined(moved, without)
            self.streams, self.tokens = without, np.append(self.tokens, first + step)
            apart = sum(
                (one - true).abs().sum(1)
                for (_, one), (_, true) in zip(without.tensors(), state.tensors(), strict=True)
            )
            assert isinstance(apart, Tensor)
            owed = apart.double().cpu().numpy()
            total = owed.sum()
            if total > 0:
                shares[step, self.tokens] = owed / total
            self._drop(owed > FAINT * total)
        return shares

    def _drop(self, kept: Any) -> None:
        if kept.all() or not kept.any():
            return
        rows = torch.from_numpy(np.flatnonzero(kept))
        self.streams = self.streams.select(rows)
        self.tokens = self.tokens[kept]


def _joined(first: Any, second: Any) -> Any:
    later = iter([tensor for _, tensor in second.tensors()])
    return first.map(lambda tensor: torch.cat((tensor, next(later))))


class RecurrentView:
    """Watches one recurrent layer."""

    def __init__(self, layer: RecurrentLayer, number: int) -> None:
        self.layer, self.number, self.skipped = layer, number, Skipped()

    def sites(self) -> list[str]:
        """Its gates, and what it was given."""
        return [f"layers.{self.number}.gates", self._input]

    @property
    def _input(self) -> str:
        return f"layer.{self.number - 1}.out" if self.number else "embeddings"

    def parts(self, seen: Seen, before: Any, first: int, new: int, pick: Pick) -> list[Part]:
        """Which tokens the state is made of; a share is no weight, and there are no heads."""
        cell, weights = self.layer.cell, self.layer.weights
        given = seen[self._input]
        state = before
        if state is None:
            state = cell.start(given.new_zeros(1, self.layer.kernel.hidden_size))
        inputs = cell.project(given, weights)
        shares = self.skipped.read(cell, weights, inputs, state, first)
        return [Part(self.number, f"layer {self.number + 1}", shares)]

    def panels(self, seen: Seen, before: Any, after: Any, first: int, new: int) -> list[Json]:
        """Gates over the segment, and the state as it is now."""
        gates = seen[f"layers.{self.number}.gates"][0].double().cpu().numpy()  # (T, G, D)
        return [self._panel(gates, after)]

    def blanked(self, state: Any, blank: Blank, read: int) -> Any:
        """Zeros in place of the state, or of one of its units."""
        if not blank.concerns(self.number, STATE):
            return state
        if blank.unit is None:
            return emptied(state)
        unit = blank.unit
        return state.map(lambda tensor: one_of(tensor, 1, unit))

    def _panel(self, gates: Floats, after: Any) -> Json:
        names = self.layer.cell.gates
        keeper = next(name for name in KEEPS if name in names)
        picture = gates[:, names.index(keeper)].T  # (D, T)
        order = np.argsort(picture.mean(1))
        low, high = np.quantile(gates, (0.1, 0.9), axis=2)
        curves = [
            {
                "name": name,
                "mean": listed(gates[:, gate].mean(1)),
                "low": listed(low[:, gate]),
                "high": listed(high[:, gate]),
            }
            for gate, name in enumerate(names)
        ]
        state = {name: tensor[0].double().cpu().numpy() for name, tensor in after.tensors()}
        vector = state.get("cell", state["hidden"])
        return {
            "kind": "gates",
            "layer": self.number,
            "title": STATE,
            "gates": curves if len(names) > 1 else [],
            "keeper": keeper if len(names) > 1 else "hidden",
            "units": packed(picture[order]),
            "vector": "cell" if "cell" in state else "hidden",
            "state": listed(vector[order]),
            "order": order.tolist(),
            "bytes": after.nbytes,
        }
