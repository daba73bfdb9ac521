"""A small model that keeps its promises about state, and ways to break each of them.

Attention over keys and values, with sines of the own position: state in, state out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnemoscope.memories.state import State

WORDS, WIDTH = 19, 16


@dataclass(frozen=True)
class Kept(State):
    """keys, values (B, S, D), whether each is a token (B, S), and how many each row has read."""

    keys: Tensor
    values: Tensor
    real: Tensor
    count: Tensor

    def _forget(self, fresh: Tensor) -> Self:
        keep = ~fresh
        return type(self)(
            self.keys, self.values, self.real & keep[:, None], self.count.masked_fill(fresh, 0)
        )


class Good(nn.Module):
    """``logits, state = model(tokens, state, mask)``; positions are sines of the own count."""

    rates: Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WORDS)
        self.drop = nn.Dropout(0.2)
        self.register_buffer("rates", torch.linspace(0.1, 2.0, WIDTH))
        self.eval()

    def places(self, count: Tensor, mask: Tensor) -> Tensor:
        return count[:, None] + mask.cumsum(1) - 1

    def visible(self, real: Tensor, new: int) -> Tensor:
        held = real.shape[1] - new
        steps = torch.arange(real.shape[1])
        order = steps[None] <= held + torch.arange(new)[:, None]
        return order[None] & real[:, None]

    def begin(self, tokens: Tensor) -> Kept:
        rows = len(tokens)
        empty = self.embed.weight.new_zeros(rows, 0, WIDTH)
        none = torch.zeros(rows, 0, dtype=torch.bool)
        return Kept(empty, empty, none, torch.zeros(rows, dtype=torch.long))

    def forward(
        self, tokens: Tensor, state: Kept | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        state = self.begin(tokens) if state is None else state
        mask = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
        angles = self.places(state.count, mask)[..., None] * self.rates
        vectors = self.drop(self.embed(tokens) + angles.sin().to(self.embed.weight.dtype))
        keys = torch.cat((state.keys, self.key(vectors)), 1)
        values = torch.cat((state.values, self.value(vectors)), 1)
        real = torch.cat((state.real, mask), 1)
        scores = 4 * self.query(vectors) @ keys.transpose(1, 2) / WIDTH**0.5
        scores = scores.masked_fill(~self.visible(real, tokens.shape[1]), -1e4)
        found = F.softmax(scores, -1) @ values
        count = state.count + mask.sum(1)
        return self.out(found + vectors), Kept(keys, values, real, count)


class StateDropped(Good):
    """Reads every piece as if it were the first."""

    def forward(self, tokens: Tensor, state: Any = None, mask: Any = None) -> Any:
        return super().forward(tokens, None, mask)


class StaleCache(Good):
    """Hands back the state that it was given when several tokens were read after it."""

    def forward(self, tokens: Tensor, state: Any = None, mask: Any = None) -> Any:
        logits, new = super().forward(tokens, state, mask)
        return logits, new if state is None or tokens.shape[1] == 1 else state


class OffByOne(Good):
    """Counts one token too few when it goes on."""

    def places(self, count: Tensor, mask: Tensor) -> Tensor:
        return super().places((count - 1).clamp(min=0), mask)


class MixedRows(Good):
    """Every row attends to the keys of its neighbour when it goes on."""

    def forward(self, tokens: Tensor, state: Any = None, mask: Any = None) -> Any:
        if state is not None:
            state = Kept(state.keys.roll(1, 0), state.values, state.real, state.count)
        return super().forward(tokens, state, mask)


class RowsTalk(Good):
    """What is said depends on who else is in the batch."""

    def forward(self, tokens: Tensor, state: Any = None, mask: Any = None) -> Any:
        logits, state = super().forward(tokens, state, mask)
        return logits + logits.mean(0, keepdim=True), state


class Hidden(Good):
    """Keeps the last keys in the module and not in the state."""

    def forward(self, tokens: Tensor, state: Any = None, mask: Any = None) -> Any:
        if state is not None and self.last is not None and len(self.last[0]) == len(tokens):
            state = Kept(self.last[0], self.last[1], state.real, state.count)
            state = state if state.keys.shape[:2] == state.real.shape else None
        logits, new = super().forward(tokens, state, mask)
        self.last = (new.keys, new.values)
        return logits, new

    last: Any = None


class Leak(Good):
    """Every token sees the one behind it."""

    def visible(self, real: Tensor, new: int) -> Tensor:
        held = real.shape[1] - new
        order = torch.arange(real.shape[1])[None] <= held + 1 + torch.arange(new)[:, None]
        return order[None] & real[:, None]


class CastState(Good):
    """Rounds its state to half precision on the way."""

    def forward(self, tokens: Tensor, state: Any = None, mask: Any = None) -> Any:
        logits, new = super().forward(tokens, state, mask)
        dtype = self.embed.weight.dtype
        keys, values = (one.bfloat16().to(dtype) for one in (new.keys, new.values))
        return logits, Kept(keys, values, new.real, new.count)


class PaddingRead(Good):
    """Takes padding for a token."""

    def forward(self, tokens: Tensor, state: Any = None, mask: Any = None) -> Any:
        return super().forward(tokens, state, None)


@dataclass(frozen=True)
class Unforgetting(Kept):
    """A state whose reset forgets the count alone."""

    def _forget(self, fresh: Tensor) -> Self:
        return type(self)(self.keys, self.values, self.real, self.count.masked_fill(fresh, 0))


class ForgottenReset(Good):
    """Rows that start anew still see what was read."""

    def forward(self, tokens: Tensor, state: Any = None, mask: Any = None) -> Any:
        logits, new = super().forward(tokens, state, mask)
        return logits, Unforgetting(new.keys, new.values, new.real, new.count)


class Aliased(Good):
    """Writes into the state that it was given."""

    def forward(self, tokens: Tensor, state: Any = None, mask: Any = None) -> Any:
        logits, new = super().forward(tokens, state, mask)
        if state is not None:
            state.keys.mul_(0.5)
        return logits, new


@dataclass(frozen=True)
class Fuller(Kept):
    """A state with a tensor that nobody reads."""

    idle: Tensor | None = None


class Idle(Good):
    """Carries a tensor that it never looks at."""

    def forward(self, tokens: Tensor, state: Any = None, mask: Any = None) -> Any:
        logits, new = super().forward(tokens, state, mask)
        kept = (new.keys, new.values, new.real, new.count)
        return logits, Fuller(*kept, idle=tokens[:, -1:].float())


@dataclass(frozen=True)
class Noted(State):
    """Only a number, and no tensor, says what was read."""

    inner: Kept
    note: float


class Incomplete(Good):
    """A number beside the tensors of the state decides as well."""

    def forward(self, tokens: Tensor, state: Any = None, mask: Any = None) -> Any:
        inner, note = (state.inner, state.note) if state is not None else (None, 0.0)
        logits, new = super().forward(tokens, inner, mask)
        steps = torch.arange(logits.shape[-1]) * note
        return logits + steps, Noted(new, note + float(tokens.float().mean()))


class TrainsOtherwise(Good):
    """Is another model in training."""

    def forward(self, tokens: Tensor, state: Any = None, mask: Any = None) -> Any:
        logits, new = super().forward(tokens, state, mask)
        return (logits * 1.5 if self.training else logits), new


class Random(Good):
    """Never says the same twice."""

    def forward(self, tokens: Tensor, state: Any = None, mask: Any = None) -> Any:
        logits, new = super().forward(tokens, state, mask)
        return logits + 0.01 * torch.rand(1), new


class Overflowing(Good):
    """Has a number in it that half precision rounds away."""

    def forward(self, tokens: Tensor, state: Any = None, mask: Any = None) -> Any:
        logits, new = super().forward(tokens, state, mask)
        return (logits + 1e4) - 1e4, new


class Greedy(Good):
    """Declares fewer bytes than it has."""

    def state_bytes(self, tokens: int) -> int:
        return 4 * WIDTH * tokens


# Which promise must catch it.
MUTANTS: dict[type[Good], str] = {
    StateDropped: "state used",
    StaleCache: "pieces",
    OffByOne: "one by one",
    MixedRows: "several after",
    RowsTalk: "batched",
    Hidden: "nothing hidden",
    Leak: "causal",
    CastState: "pieces",
    PaddingRead: "left padded",
    ForgottenReset: "reset",
    Aliased: "a value",
    Idle: "minimal",
    Incomplete: "complete",
    TrainsOtherwise: "train mode",
    Random: "deterministic",
    Overflowing: "half precision",
    Greedy: "bytes",
}
