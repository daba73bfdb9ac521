"""Layers that hold some of the tokens only: chosen by position or chance, or by attention.

Shapes: B rows, H key-value heads, T new tokens, S tokens attended to, K tokens held, E width.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.caches.config import H2O, Random, SnapKV, Window
from mnemoscope.huggingface.caches.layers import FullLayer, Sizes


class EvictingLayer(FullLayer):
    """Keys and values of ``budget`` tokens of every head, in the order in which they were read."""

    def __init__(self, budget: int) -> None:
        super().__init__()
        self.budget = budget

    def keep(self, index: Tensor) -> None:
        """Hold the tokens (B or 1, H or 1, K) only."""
        rows, heads = self.held["keys"].shape[:2]
        index = index.sort(-1).values.expand(rows, heads, -1)

        def picked(tensor: Tensor) -> Tensor:
            if tensor.dim() == 3:
                return tensor.gather(2, index)
            return tensor.gather(2, index[..., None].expand(-1, -1, -1, tensor.shape[3]))

        self._map(picked)

    @property
    def length(self) -> int:
        """Tokens that are held of every head."""
        return min(self.seen, self.budget)

    def sizes(self, seen: int) -> Sizes:
        """At most ``budget`` tokens."""
        held = min(seen, self.budget)
        return {"keys": (2, held), "values": (2, held)}


class BlindLayer(EvictingLayer):
    """One that does not look at what it lets go."""

    def write(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append, and let go."""
        new = keys.shape[2]
        keys, values = super().write(keys, values)
        if keys.shape[2] > self.budget:
            self.keep(self.chosen(keys.shape[2], new).to(keys.device))
        return keys, values

    @abstractmethod
    def chosen(self, length: int, new: int) -> Tensor:
        """Which of ``length`` tokens are held, (1, H or 1, K), when so many of them are new."""


class WatchingLayer(EvictingLayer):
    """One that lets go once it has seen the attention of the queries that came with the keys."""

    waiting = False

    def write(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append; then `watch` must follow."""
        if self.waiting:
            raise UserError(
                "this model does not show its attention to the cache: call it inside `with "
                "compressed_cache(model, …) as cache`, or choose window, random or quantised"
            )
        self.waiting = True
        return super().write(keys, values)

    def watch(self, queries: Tensor, keys: Tensor, scale: float) -> None:
        """See queries (B, H · shared, T, E) that attend to keys (B, H, S, E), and let go."""
        self.waiting = False
        scores = self.score(queries, keys, scale)
        if keys.shape[2] > self.budget:
            length = scores.shape[2]
            older = length - self.last
            best = scores[:, :, :older].topk(self.budget - self.last, -1).indices
            ends = torch.arange(older, length, device=scores.device)
            self.keep(torch.cat([best, ends.expand(*best.shape[:2], -1)], 2))

    # Tokens of the end that are held whatever their scores.
    last: int

    @abstractmethod
    def score(self, queries: Tensor, keys: Tensor, scale: float) -> Tensor:
        """What every token is worth, (B, H, S)."""


class WindowLayer(BlindLayer):
    """The first tokens of a stream and its last ones."""

    def __init__(self, options: Window) -> None:
        super().__init__(options.budget)
        self.sinks = options.sinks

    def chosen(self, length: int, new: int) -> Tensor:
        """The same for every head."""
        first = torch.arange(self.sinks)
        last = torch.arange(length - self.budget + self.sinks, length)
        return torch.cat([first, last])[None, None]


class RandomLayer(BlindLayer):
    """The first tokens, the last ones, and a uniform sample of all between, another a head.

    The sample is renewed as a reservoir: of N tokens between, of which ``new`` have just come to be
    there, hypergeometrically many of the sample are new. It depends on the seed, the layer and the
    count alone, not on the rows read beside.
    """

    def __init__(self, options: Random, index: int) -> None:
        super().__init__(options.budget)
        self.options, self.index = options, index

    def chosen(self, length: int, new: int) -> Tensor:
        """Draw for every head."""
        first, last = self.options.sinks, self.options.last
        room = self.budget - first - last
        rng = np.random.default_rng((self.options.seed, self.index, self.seen))
        between = length - first - last
        before = max(0, self.seen - new - first - last)
        old = min(before, room)  # tokens of the sample so far
        picked = []
        for _ in range(self.held["keys"].shape[1]):
            fresh = int(rng.hypergeometric(between - old, before, room)) if room else 0
            stay = rng.permutation(old)[: room - fresh]
            come = old + rng.permutation(between - old)[:fresh]
            picked.append(first + np.concatenate([stay, come]))
        middle = torch.from_numpy(np.stack(picked).astype(np.int64))  # (H, room)
        ends = torch.cat([torch.arange(first), torch.arange(length - last, length)])
        return torch.cat([ends.expand(len(middle), -1), middle], 1)[None]


class H2OLayer(WatchingLayer):
    """The last tokens, and those of the others that have got most attention in all."""

    def __init__(self, options: H2O) -> None:
        super().__init__(options.budget)
        self.last = options.last

    def score(self, queries: Tensor, keys: Tensor, scale: float) -> Tensor:
        """All attention since a token was read, which is held beside the token."""
        got = attention(queries, keys, scale).sum(2)
        if "scores" in self.held:
            got[:, :, : self.held["scores"].shape[2]] += self.held["scores"]
        self.held["scores"] = got
        return got

    def sizes(self, seen: int) -> Sizes:
        """Scores too are held, one number a token."""
        return super().sizes(seen) | {"scores": (2, min(seen, self.budget))}


class SnapKVLayer(WatchingLayer):
    """The last tokens, and those of the others that they attend to most, with neighbours.

    When a prompt is read at once, this is SnapKV; token by token, the last one chooses alone.
    """

    def __init__(self, options: SnapKV) -> None:
        super().__init__(options.budget)
        self.last, self.pool = options.queries, options.pool

    def score(self, queries: Tensor, keys: Tensor, scale: float) -> Tensor:
        """Mean attention of the last queries, averaged over neighbours."""
        got = attention(queries[:, :, -self.last :], keys, scale).mean(2)
        return F.avg_pool1d(got, self.pool, 1, self.pool // 2, count_include_pad=False)


def attention(queries: Tensor, keys: Tensor, scale: float) -> Tensor:
    """Attention (B, H, T, S) of the last T of S tokens, mean over the heads that share keys."""
    rows, heads, length = keys.shape[:3]
    new = queries.shape[2]
    parted = queries.detach().float().view(rows, heads, -1, new, queries.shape[3])
    scores = scale * parted @ keys.detach().float().transpose(2, 3)[:, :, None]
    seen = torch.ones(new, length, dtype=torch.bool, device=keys.device).tril(length - new)
    return scores.masked_fill(~seen, -torch.inf).softmax(-1).mean(2)
