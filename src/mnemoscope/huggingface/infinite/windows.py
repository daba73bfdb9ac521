"""The windows of streams that are read side by side, wherever each of them stands.

Everything that is held is aligned to the right and as long as the row that holds most; how much
of it a row holds follows from how much it has read. So rows can be padded, picked and reset.

Shapes: R rows, T tokens, D width, H heads, E = D / H, S keys held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.infinite.slots import SlotState
from mnemoscope.memories.infinite.signal import ContinuousState
from mnemoscope.memories.state import State


@dataclass(frozen=True)
class WindowState(State):
    """tokens (R, S): the last ones, for models that read them again when a window begins."""

    tokens: Tensor


@dataclass(frozen=True)
class WindowLayerState(State):
    """What one block carries.

    keys, values  (R, H, S, E)  of the window so far, as the model caches them
    inputs        (R, T, D)     what the attention was given in this window; None if it reads none
    signal                      all windows before; None if it reads none
    slots                       what its own attention reads of them; None if it reads none
    """

    keys: Tensor
    values: Tensor
    inputs: Tensor | None = None
    signal: ContinuousState | None = None
    slots: SlotState | None = None


@dataclass(frozen=True)
class Windows:
    """Where windows begin, and what is held, as functions of the tokens a row has read.

    size    tokens of a window
    mem_len  tokens carried over into the next
    moves   whether keys can be carried (rotary positions); else their tokens are read again
    """

    size: int
    mem_len: int
    moves: bool

    def filled(self, count: int) -> int:
        """Tokens of the window that have been read."""
        return count % self.size

    def keys(self, count: int) -> int:
        """Keys held: those carried over, and those of the window."""
        carried = self.mem_len if count >= self.size else 0
        begun = self.filled(count) > 0
        return self.filled(count) + (carried if self.moves or begun else 0)

    def again(self, count: int) -> int:
        """Tokens to be read again before the next one."""
        return 0 if self.moves or self.filled(count) else self.tokens(count)

    def tokens(self, count: int) -> int:
        """Tokens held, to be read again."""
        return 0 if self.moves else min(count, self.mem_len)

    def first(self, count: int) -> int:
        """The position of the next token to be fed."""
        return count if self.moves and self.mem_len else self.keys(count)


@dataclass(frozen=True)
class WindowSegment:
    """What is fed at once: for every row tokens to be read again, then new ones, then padding.

    tokens  (R, T)
    positions (R, T)
    real    (R, T)  false where padded
    new     (R, T)  false where padded or read again
    """

    tokens: Tensor
    positions: Tensor
    real: Tensor
    new: Tensor


def lay_out(
    windows: Windows, held: Tensor, tokens: Tensor, begin: Sequence[int], counts: Sequence[int],
    new: Sequence[int],
) -> WindowSegment:  # fmt: skip
    """Take ``new`` tokens from ``begin`` on of each row of ``tokens``, after those read again."""
    again = [windows.again(count) if n else 0 for count, n in zip(counts, new, strict=True)]
    length = max(a + n for a, n in zip(again, new, strict=True))
    steps = torch.arange(length)[None]
    old, fresh = torch.tensor(again)[:, None], torch.tensor(new)[:, None]
    # Indices into held and tokens side by side; padding repeats the last one.
    at = steps.minimum((old + fresh - 1).clamp(min=0))
    source = torch.where(
        at < old,
        held.shape[1] - old + at,
        held.shape[1] + torch.tensor(begin)[:, None] + at - old,
    ).clamp(max=held.shape[1] + tokens.shape[1] - 1)
    positions = torch.tensor([windows.first(count) for count in counts])[:, None] + at
    real, is_new = steps < old + fresh, (steps >= old) & (steps < old + fresh)
    device = tokens.device
    return WindowSegment(
        torch.cat((held, tokens), 1).gather(1, source.to(device)),
        positions.to(device),
        real.to(device),
        is_new.to(device),
    )


def last(values: Tensor, length: int, axis: int) -> Tensor:
    """The last ``length`` along an axis."""
    return values.narrow(axis, values.shape[axis] - length, length)


class Held:
    """Things of which rows hold ``lengths`` at the right, joined by those of a segment that count.

    added  (R, T)  true for those of the segment that count
    """

    def __init__(self, lengths: Sequence[int], added: Tensor) -> None:
        self.before = max(lengths)
        slots = torch.arange(self.before)[None]
        old = slots >= self.before - torch.tensor(lengths)[:, None]
        self.real = torch.cat((old.to(added.device), added), 1)
        self.even = bool(self.real.all())
        self.after = int(self.real.sum(1).max())

    def attention(self) -> Tensor:
        """The mask for `transformers`, (R, S + T); a row of nothing attends to something."""
        nothing = ~self.real.any(1, keepdim=True)
        return (self.real | nothing).long()

    def joined(self, old: Tensor, added: Tensor, axis: int) -> Tensor:
        """Old ones and new ones side by side, at the right."""
        return self.settled(torch.cat((last(old, self.before, axis), added), axis), axis)

    def settled(self, values: Tensor, axis: int) -> Tensor:
        """Move what counts to the right, in order, and drop what no row has."""
        if self.even:
            return values
        order = last(self.real.long().argsort(dim=1, stable=True), self.after, 1)
        shape = [1] * values.dim()
        shape[0], shape[axis] = order.shape
        sizes = list(values.shape)
        sizes[axis] = self.after
        return values.gather(axis, order.view(shape).expand(sizes))


def cache_of(pasts: Sequence[WindowLayerState], length: int) -> Any:
    """The last ``length`` keys and values as `transformers` wants them."""
    from transformers import DynamicCache

    cache = DynamicCache()
    if length:
        for layer, past in enumerate(pasts):
            cache.update(last(past.keys, length, 2), last(past.values, length, 2), layer)
    return cache


def pairs_of(cache: Any, run: range) -> Iterator[tuple[Tensor, Tensor]]:
    """Keys and values after a call, of every block that was run in it."""
    for layer in cache.layers[run.start : run.stop]:
        if getattr(layer, "keys", None) is None or layer.keys.dim() != 4:
            raise UserError("the model keeps something else than keys and values of its tokens")
        yield layer.keys, layer.values
