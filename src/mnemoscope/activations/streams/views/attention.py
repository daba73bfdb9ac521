"""Transformer and Sparse Transformer: keys and values of tokens, and attention weights.

Shapes: H heads, T tokens of the segment, S keys, N tokens read so far.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.hooks import Seen
from mnemoscope.activations.streams.blank import Blank
from mnemoscope.activations.streams.views.view import (
    Floats,
    Ints,
    Json,
    Part,
    Pick,
    slots,
    spread,
    visible_without,
)
from mnemoscope.memories.sparse.attention import SparseAttention
from mnemoscope.memories.sparse.patterns import Pattern
from mnemoscope.memories.transformer.attention import SelfAttention
from mnemoscope.memories.transformer.state import AttentionState

A = TypeVar("A")
KEYS = "keys and values"


def attention(
    queries: Tensor, keys: Tensor, allowed: Tensor, pick: Pick, scale: float | None = None
) -> Floats:
    """Softmax attention of one head or of all: (1, H, T, E) over (1, H, S, E) -> (T, S)."""
    exact = torch.promote_types(queries.dtype, torch.float32)
    scores = queries.to(exact) @ keys.to(exact).transpose(2, 3)
    scores = scores * (queries.shape[3] ** -0.5 if scale is None else scale)
    weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
    picked: Floats = pick(weights[0]).double().cpu().numpy()
    return picked


def causal(new: int, total: int, context: int | None, device: torch.device) -> Tensor:
    """Which of ``total`` tokens the newest ``new`` may attend to, (T, S)."""
    queries = torch.arange(total - new, total, device=device)[:, None]
    apart = queries - torch.arange(total, device=device)
    return (apart >= 0) & (apart < (context or total))


def without_keys(state: AttentionState, blank: Blank, read: int) -> AttentionState:
    """Keys and values of the last tokens of ``read``, some of them hidden."""
    gone = blank.hides(np.arange(read - state.length, read), 1)
    visible = visible_without(state.visible, state.keys, gone)
    return AttentionState(state.keys, state.values, visible)


class LayerView(Generic[A]):
    """Watches the attention of one layer."""

    def __init__(self, attention: A, number: int) -> None:
        self.attention, self.number = attention, number

    def sites(self) -> list[str]:
        """Queries and new keys."""
        return [f"layer.{self.number}.attention.{which}" for which in "qk"]


class AttentionView(LayerView[SelfAttention]):
    """Watches one layer that keeps all keys and values within its context."""

    def parts(self, seen: Seen, before: Any, first: int, new: int, pick: Pick) -> list[Part]:
        """Attention weights."""
        queries, keys = (seen[site] for site in self.sites())
        if before is not None:
            keys = torch.cat((before.keys, keys), 2)
        total, read = keys.shape[2], first + new
        allowed = causal(new, total, self.attention.context, keys.device)
        weights = attention(queries, keys, allowed, pick)
        shares = spread(weights, np.arange(read - total, read), 1, read)
        return [Part(self.number, f"layer {self.number + 1}", shares, self.attention.heads)]

    def panels(self, seen: Seen, before: Any, after: Any, first: int, new: int) -> list[Json]:
        """Which tokens can still be attended to."""
        held = np.arange(first + new - after.length, first + new)
        room = self.attention.context - 1
        name = f"layer {self.number + 1}"
        return [slots(self.number, name, KEYS, held, 1, room, after.nbytes)]

    def blanked(self, state: AttentionState, blank: Blank, read: int) -> AttentionState:
        """Tokens that go are hidden from attention."""
        return without_keys(state, blank, read) if blank.concerns(self.number, KEYS) else state


class SparseView(LayerView[SparseAttention]):
    """Watches one layer whose heads attend to some of the tokens, and forget the others."""

    def parts(self, seen: Seen, before: Any, first: int, new: int, pick: Pick) -> list[Part]:
        """Attention weights of each pattern."""
        queries, keys = (seen[site] for site in self.sites())
        share, read = self.attention.heads // len(self.attention.patterns), first + new
        found = []
        for number, pattern in enumerate(self.attention.patterns):
            some = slice(number * share, (number + 1) * share)
            stored, held = keys[:, some], torch.arange(first, read, device=keys.device)
            if before is not None:
                group = before.groups[number]
                stored = torch.cat((group.keys, stored), 2)
                held = torch.cat((group.places[0] - 1, held))
            tokens = torch.arange(first, read, device=keys.device)[:, None]
            allowed = pattern.allows(tokens, held) & (held >= 0)
            weights = attention(queries[:, some], stored, allowed, pick)
            real = (held >= 0).cpu().numpy()
            shares = spread(weights[:, real], held.cpu().numpy()[real], 1, read)
            found.append(Part(self.number, self._name(pattern), shares, share))
        return found

    def panels(self, seen: Seen, before: Any, after: Any, first: int, new: int) -> list[Json]:
        """Which positions the sparse KV state of each pattern holds."""
        found = []
        for pattern, state in zip(self.attention.patterns, after.groups, strict=True):
            positions: Ints = state.places[0].cpu().numpy() - 1
            held, name = positions[positions >= 0], self._name(pattern)
            found.append(slots(self.number, name, _store(pattern), held, 1, None, state.nbytes))
        return found

    def blanked(self, state: Any, blank: Blank, read: int) -> Any:
        """Tokens that go are marked as none."""
        groups = []
        for pattern, group in zip(self.attention.patterns, state.groups, strict=True):
            if blank.concerns(self.number, _store(pattern)):
                gone = blank.hides(group.places[0].cpu().numpy() - 1, 1)
                places = group.places.masked_fill(torch.from_numpy(gone).to(group.places.device), 0)
                group = replace(group, places=places)
            groups.append(group)
        return replace(state, groups=tuple(groups))

    def _name(self, pattern: Pattern) -> str:
        return f"layer {self.number + 1} · {pattern.name}"


def _store(pattern: Pattern) -> str:
    return f"{KEYS}, {pattern.name}"
