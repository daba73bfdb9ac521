"""Layers of the cache interface of transformers: what is held of the keys and values of one layer.

A layer counts the tokens it was given, whatever it still holds: `get_seq_length` is that count, so
that models continue with the position a token really has, and keys keep the rotation they were
stored with. The mask is told that what is held ends where the new tokens begin: all is visible.

A segment attends to what is held and to itself, whole; only then is anything let go or rounded.

Shapes: B rows, H key-value heads, T new tokens, S tokens attended to, K tokens held, E width.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import CacheLayerMixin

from mnemoscope.core.errors import UserError

# Name of a tensor -> the axis that grows with the tokens read, and its size.
Sizes = dict[str, tuple[int, int]]


class HeldLayer(CacheLayerMixin):  # type: ignore[misc]
    """Tensors by name, rows first, and how many tokens were read."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[str, Tensor] = {}
        self.seen = 0

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Take keys and values (B, H, T, E) in; return those to attend to, (B, H, S, E)."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        self.seen += key_states.shape[2]
        return self.write(key_states, value_states)

    @abstractmethod
    def write(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Hold new keys and values (B, H, T, E); return them behind those held before."""

    @abstractmethod
    def sizes(self, seen: int) -> Sizes:
        """How large every tensor is along the axis that grows, after so many tokens."""

    @property
    def length(self) -> int:
        """Tokens that the next segment will attend to beside itself."""
        return self.seen

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Note what the model computes with."""
        self.dtype, self.device = key_states.dtype, key_states.device
        self.is_initialized = True

    def get_seq_length(self) -> int:
        """The tokens that were read, held or not: the next one has this position."""
        return self.seen

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """How many tokens are attended to, and the position that the mask gives the first."""
        return self.length + query_length, self.seen - self.length

    def get_max_length(self) -> int:
        """No stream is too long."""
        return -1

    def _map(self, change: Callable[[Tensor], Tensor]) -> None:
        self.held = {name: change(tensor) for name, tensor in self.held.items()}

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Take rows in another order (beam search)."""
        self.batch_select_indices(beam_idx)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Hold these rows only."""
        self._map(lambda tensor: tensor[indices.to(tensor.device)])

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Hold every row several times."""
        self._map(lambda tensor: tensor.repeat_interleave(repeats, 0))

    def offload(self) -> None:
        """Move all that is held to the main memory."""
        self._map(lambda tensor: tensor.to("cpu", non_blocking=True))

    def prefetch(self) -> None:
        """Move it back to where the model computes."""
        if self.held:
            self._map(lambda tensor: tensor.to(self.device, non_blocking=True))

    def reset(self) -> None:
        """Begin a new stream."""
        self.held, self.seen, self.is_initialized = {}, 0, False

    def crop(self, tokens_to_remove: int) -> None:
        """Refuse: what was let go or rounded cannot be taken back."""
        if tokens_to_remove:
            raise UserError("a compressed cache cannot take tokens back: generate without drafts")


class FullLayer(HeldLayer):
    """Every key and value, (B, H, K, E) each."""

    def write(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append."""
        if self.held:
            keys = torch.cat([self.held["keys"], keys], 2)
            values = torch.cat([self.held["values"], values], 2)
        self.held |= {"keys": keys, "values": values}
        return keys, values

    def sizes(self, seen: int) -> Sizes:
        """All tokens."""
        return {"keys": (2, seen), "values": (2, seen)}
