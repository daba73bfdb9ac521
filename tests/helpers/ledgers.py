"""Memories whose retention is known on paper: they keep a table of what was stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mnemoscope.data.recall import Recall
from mnemoscope.memories.state import State, StreamState
from mnemoscope.models.model import Output
from mnemoscope.models.stream import Stream


@dataclass(frozen=True)
class Table(State):
    """value (B, K), 0 for none, else 1 + value; written (B, K), when; count (B,) tokens read."""

    value: Tensor
    written: Tensor
    count: Tensor


class Ledger:
    """Keeps values by key and says them with a confidence that halves every ``half`` tokens."""

    def __init__(self, task: Recall, half: float | None = None, keeps: str = "last") -> None:
        self.task, self.half, self.keeps = task, half, keeps
        self.secret: Table | None = None

    def stream(self, hides: bool = False) -> Stream:
        call = self.hiding if hides else self
        return Stream(call, "ledger", self.task.vocab, None, torch.device("cpu"))

    def start(self, rows: int) -> Table:
        zeros = torch.zeros(rows, self.task.keys, dtype=torch.long)
        return Table(zeros, zeros.clone(), torch.zeros(rows, dtype=torch.long))

    def __call__(self, tokens: Tensor, state: StreamState | None = None) -> Output:
        table: Any = self.start(len(tokens)) if state is None else state.layers[0]
        logits, table = self.read(tokens, table)
        return Output(logits, StreamState((table,), None, ""))

    def hiding(self, tokens: Tensor, state: StreamState | None = None) -> Output:
        """The same, with all of it in an attribute and one byte in the state."""
        before = self.secret if state is not None and self.secret is not None else None
        logits, self.secret = self.read(tokens, before or self.start(len(tokens)))
        byte = torch.zeros(len(tokens), 1, dtype=torch.uint8)
        return Output(logits, StreamState((Table(byte, byte[:, :0], byte[:, :0]),), None, ""))

    def read(self, tokens: Tensor, table: Table) -> tuple[Tensor, Table]:
        task = self.task
        value, written, count = table.value.clone(), table.written.clone(), table.count.clone()
        logits = torch.zeros(*tokens.shape, task.vocab, dtype=torch.float64)
        rows = torch.arange(len(tokens))
        first = task.keys + task.values + 1
        for place, token in enumerate(tokens.unbind(1)):
            stores = token >= first
            key, new = (token - first) // task.values, (token - first) % task.values
            if self.keeps == "first":
                stores &= value[rows, key.clamp(min=0)] == 0
            value[rows[stores], key[stores]] = 1 + new[stores]
            written[rows[stores], key[stores]] = count[stores]
            asks = (token < task.keys) & (value[rows, token.clamp(max=task.keys - 1)] > 0)
            for row in rows[asks].tolist():
                key_asked = int(token[row])
                age = int(count[row] - written[row, key_asked])
                sure = self.sure(age)
                logits[row, place, task.keys + int(value[row, key_asked]) - 1] = sure
            count = count + 1
        return logits, Table(value, written, count)

    def sure(self, age: int) -> float:
        """The logit of the right value, all others being 0."""
        share = self.right(age)
        return float(torch.tensor(share * (self.task.values - 1) / (1 - share)).log())

    def right(self, age: int) -> float:
        """Probability of the value at an age: from nearly 1 down to chance."""
        chance = 1 / self.task.values
        fade = 1.0 if self.half is None else 2.0 ** (-age / self.half)
        return chance + (1 - 1e-9 - chance) * fade
