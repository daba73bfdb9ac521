"""Transformer and Sparse Transformer: keys and values of tokens, and attention weights.

Shapes: H heads, T tokens of the segment, S keys, N tokens read so far.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.activations.hooks import Seen
from mnemoscope.memories.sparse.attention import SparseAttention
from mnemoscope.memories.transformer.attention import SelfAttention
from mnemoscope.scope.views.view import Floats, Ints, Part, Shown, slots, spread


def mean_attention(
    queries: Tensor, keys: Tensor, allowed: Tensor, scale: float | None = None
) -> Floats:
    """Softmax attention, averaged over heads: (1, H, T, E) over (1, H, S, E) -> (T, S)."""
    exact = torch.promote_types(queries.dtype, torch.float32)
    scores = queries.to(exact) @ keys.to(exact).transpose(2, 3)
    scores = scores * (queries.shape[3] ** -0.5 if scale is None else scale)
    weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
    mean: Floats = weights[0].mean(0).double().cpu().numpy()
    return mean


def causal(new: int, total: int, context: int | None, device: torch.device) -> Tensor:
    """Which of ``total`` tokens the newest ``new`` may attend to, (T, S)."""
    queries = torch.arange(total - new, total, device=device)[:, None]
    apart = queries - torch.arange(total, device=device)
    return (apart >= 0) & (apart < (context or total))


class AttentionView:
    """Watches one layer that keeps all keys and values within its context."""

    def __init__(self, attention: SelfAttention, number: int) -> None:
        self.attention, self.number = attention, number

    def sites(self) -> list[str]:
        """Queries and new keys."""
        return [f"layer.{self.number}.attention.{which}" for which in "qk"]

    def show(self, seen: Seen, before: Any, after: Any, first: int, new: int) -> Shown:
        """Attention weights, and which tokens can still be attended to."""
        queries, keys = (seen[site] for site in self.sites())
        if before is not None:
            keys = torch.cat((before.keys, keys), 2)
        total, read = keys.shape[2], first + new
        allowed = causal(new, total, self.attention.context, keys.device)
        weights = mean_attention(queries, keys, allowed)
        shares = spread(weights, np.arange(read - total, read), 1, read)
        held = np.arange(read - after.length, read)
        name, room = f"layer {self.number + 1}", self.attention.context - 1
        panel = slots(self.number, name, "keys and values", held, 1, room, after.nbytes)
        return Shown([Part(self.number, name, shares)], [panel])


class SparseView:
    """Watches one layer whose heads attend to some of the tokens, and forget the others."""

    def __init__(self, attention: SparseAttention, number: int) -> None:
        self.attention, self.number = attention, number

    def sites(self) -> list[str]:
        """Queries and new keys."""
        return [f"layer.{self.number}.attention.{which}" for which in "qk"]

    def show(self, seen: Seen, before: Any, after: Any, first: int, new: int) -> Shown:
        """Attention weights of each pattern, and which positions its sparse KV state holds."""
        queries, keys = (seen[site] for site in self.sites())
        patterns = self.attention.patterns
        share, read = self.attention.heads // len(patterns), first + new
        shown = Shown()
        for number, pattern in enumerate(patterns):
            some = slice(number * share, (number + 1) * share)
            stored, held = keys[:, some], torch.arange(first, read, device=keys.device)
            if before is not None:
                group = before.groups[number]
                stored = torch.cat((group.keys, stored), 2)
                held = torch.cat((group.places[0] - 1, held))
            tokens = torch.arange(first, read, device=keys.device)[:, None]
            allowed = pattern.allows(tokens, held) & (held >= 0)
            weights = mean_attention(queries[:, some], stored, allowed)
            real = (held >= 0).cpu().numpy()
            shares = spread(weights[:, real], held.cpu().numpy()[real], 1, read)
            state = after.groups[number]
            positions: Ints = state.places[0].cpu().numpy() - 1
            positions = positions[positions >= 0]
            name = f"layer {self.number + 1} · {pattern.name}"
            shown.parts.append(Part(self.number, name, shares))
            title = f"keys and values, {pattern.name}"
            shown.panels.append(slots(self.number, name, title, positions, 1, None, state.nbytes))
        return shown
