"""Exact sparse attention that is as fast as its pairs are few, forward and backward.

Shapes: Z rows × heads, T tokens, E width of a head; in a tile G groups, Q queries, K keys.

A pattern is cut into parts, each plain attention between evenly spaced positions. Every part is
computed tile by tile, small enough for the scores to stay in the processor's cache, and joined to
the output of earlier parts by log-sum-exp: two softmaxes over disjoint keys, weighted by their
sums, are the softmax over both. The gradient of a softmax needs only its output and its
log-sum-exp, so the backward pass goes through the same tiles with those of the whole.

Exponentials are powers of two, which are as fast for hidden pairs (−∞) as for others; those to the
base e are ten times slower there. Parts in which nothing is hidden go to torch's own fused kernel
for CPUs where there is one: it is private, but the only one that returns the log-sum-exp.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from mnemoscope.memories.heads import softmax_attention
from mnemoscope.memories.sparse import tiles
from mnemoscope.memories.sparse.parts import Part, Tiles, cut, summary_positions
from mnemoscope.memories.sparse.patterns import Pattern

LOG2_E = math.log2(math.e)
# Scores of one tile: a megabyte stays in cache, an accelerator would rather have it all.
ROOM_ON_CPU, ROOM_ELSEWHERE = 1 << 18, 1 << 26
FUSED_ROOM = 1 << 22
# Below any score and any sum of exponentials, in every precision that these are computed in.
LEAST, SMALLEST = -1e30, 1e-30
# FlexAttention is compiled anew for every length.
WORTH_COMPILING = 1024
FUSED = "_scaled_dot_product_flash_attention_for_cpu"


# All parts, each with what is added to its scores (Q, K): −∞ where a pair is hidden.
_Plan = tuple[tuple[Part, Tensor | None], ...]


def attend(
    queries: Tensor, keys: Tensor, values: Tensor, pattern: Pattern, dropout: float = 0.0
) -> Tensor:
    """Softmax attention of T tokens among themselves, each (B, H, T, E), as the pattern allows."""
    batch, heads, length = queries.shape[:3]
    if "dense" in pattern.sets and length <= (pattern.context or length):
        return softmax_attention(queries, keys, values, dropout=dropout, causal=length > 1)
    if queries.is_cuda and dropout == 0 and length >= WORTH_COMPILING:
        return attend_flex(queries, keys, values, pattern, compiled=True)
    # Whole strides only: tokens added at the end are seen by none of the others.
    padded = math.ceil(length / pattern.stride) * pattern.stride
    given = [queries, keys, values]
    if padded > length:
        given = [F.pad(x, (0, 0, 0, padded - length)) for x in given]
    seed = int(torch.randint(1 << 62, ())) if dropout > 0 else 0
    rows = (x.reshape(batch * heads, padded, -1) for x in given)
    output: Tensor = _Tiled.apply(*rows, pattern, dropout, seed)  # type: ignore[no-untyped-call]
    output = output.view(batch, heads, padded, -1)
    return output[:, :, :length] if padded > length else output


def attend_masked(
    queries: Tensor, keys: Tensor, values: Tensor, pattern: Pattern, dropout: float = 0.0
) -> Tensor:
    """The same by the whole mask: the definition, and what the fast way is compared with."""
    mask = torch.from_numpy(pattern.mask(queries.shape[2])).to(queries.device)
    return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, dropout_p=dropout)


def attend_flex(
    queries: Tensor, keys: Tensor, values: Tensor, pattern: Pattern, compiled: bool
) -> Tensor:
    """The same by torch's FlexAttention, which on CUDA skips blocks that the pattern leaves out."""
    mask = _flex_mask(pattern, queries.shape[2], queries.device)
    output: Tensor = _flex(compiled)(queries, keys, values, block_mask=mask)
    return output


@lru_cache(maxsize=64)
def _flex_mask(pattern: Pattern, length: int, device: torch.device) -> Any:
    from torch.nn.attention.flex_attention import create_block_mask

    return create_block_mask(pattern.flex(), None, None, length, length, device=str(device))


@lru_cache
def _flex(compiled: bool) -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention) if compiled else flex_attention


@lru_cache(maxsize=64)
def _plan(pattern: Pattern, length: int, dtype: torch.dtype, device: torch.device) -> _Plan:
    """Cut the pattern; parts with the same mask share it."""
    known: dict[tuple[tuple[int, ...], bytes], Tensor] = {}
    plan = []
    for part in cut(pattern, length):
        added = None
        if part.hidden is not None and part.hidden.any():
            mark = part.hidden.shape, np.packbits(part.hidden).tobytes()
            if mark not in known:
                hidden = torch.from_numpy(part.hidden).to(device)
                zeros = torch.zeros(hidden.shape, dtype=_wide(dtype), device=device)
                known[mark] = zeros.masked_fill_(hidden, -torch.inf)
            added = known[mark]
        plan.append((replace(part, hidden=None), added))
    return tuple(plan)


def _wide(dtype: torch.dtype) -> torch.dtype:
    """Sums of exponentials need more digits than half a float has."""
    return torch.promote_types(dtype, torch.float32)


@dataclass(frozen=True)
class _TileBatch:
    """Some groups of a part, for some rows, with its scores and the keys and values they are of.

    scores (G, Q, K) to the base 2, None where the fused kernel computes its own; held (G, Q, K)
    what dropout leaves; key and value (G, K, E).
    """

    part: Part
    rows: slice
    queries: Tiles
    keys: Tiles
    scores: Tensor | None
    held: Tensor | None
    key: Tensor
    value: Tensor


class _Tiled(torch.autograd.Function):
    """queries, keys, values (Z, T, E) -> output (Z, T, E)."""

    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        pattern: Pattern,
        dropout: float,
        seed: int,
    ) -> Tensor:
        """Go through all tiles, joining their outputs."""
        queries, keys, values = (x.contiguous() for x in (queries, keys, values))
        output = torch.empty_like(values)
        total = queries.new_empty(queries.shape[:2], dtype=_wide(queries.dtype))
        for tile in _tiles(queries, keys, values, pattern, dropout, seed):
            if tile.scores is None:
                _join(output, total, tile, *_fused_forward(queries, tile))
                continue
            # A query that sees none of the keys here has weights 0, a sum of next to nothing.
            top = tile.scores.amax(-1, keepdim=True).clamp_(min=LEAST)
            weights = tile.scores.sub_(top).exp2_()
            sums = weights.sum(-1, keepdim=True).clamp_(min=SMALLEST)
            if tile.held is not None:
                weights = weights.mul_(tile.held)
            new = torch.bmm(weights.to(values.dtype), tile.value).div_(sums)
            _join(output, total, tile, new, top.add_(sums.log2_()).squeeze(-1))
        ctx.save_for_backward(queries, keys, values, output, total)
        ctx.plan = pattern, dropout, seed
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Go through the same tiles with the weights of the whole softmax."""
        queries, keys, values, output, total = ctx.saved_tensors
        grad, scale = grad.contiguous(), queries.shape[2] ** -0.5
        # What the softmax takes from each slope of a query: Σ weight · slope = grad · output.
        common = (grad * output).sum(-1, dtype=total.dtype).mul_(scale)  # (Z, T)
        whole = [torch.empty_like(queries), torch.zeros_like(keys), torch.zeros_like(values)]
        some = [torch.zeros_like(x) for x in _summaries(keys, values, ctx.plan[0])]
        plan = _plan(ctx.plan[0], queries.shape[1], queries.dtype, queries.device)
        space = _space(queries, plan)
        for tile in _tiles(queries, keys, values, *ctx.plan):
            to_keys, to_values = some if tile.part.summaries else whole[1:]
            if tile.scores is None:
                slopes = _fused_backward(grad, queries, output, total, tile)
                _add_to_queries(whole[0], tile, slopes[0])
                tiles.add(to_keys, tile.rows, tile.keys, slopes[1])
                tiles.add(to_values, tile.rows, tile.keys, slopes[2])
                continue
            query, wanted = (tiles.take(x, tile.rows, tile.queries) for x in (queries, grad))
            weights = tile.scores.sub_(
                tiles.take(total, tile.rows, tile.queries)[..., None]
            ).exp2_()
            slope = _shaped(space, weights.shape)
            torch.bmm(wanted * scale, tile.value.transpose(1, 2), out=slope)
            used = weights.to(grad.dtype)
            if tile.held is not None:
                slope, used = slope.mul_(tile.held), used * tile.held
            tiles.add(to_values, tile.rows, tile.keys, torch.bmm(used.transpose(1, 2), wanted))
            slope = slope.to(weights.dtype)
            slope.sub_(tiles.take(common, tile.rows, tile.queries)[..., None]).mul_(weights)
            slope = slope.to(grad.dtype)
            _add_to_queries(whole[0], tile, torch.bmm(slope, tile.key))
            tiles.add(to_keys, tile.rows, tile.keys, torch.bmm(slope.transpose(1, 2), query))
        for into, summed in zip(whole[1:], some, strict=False):
            into.index_add_(1, _summary_positions(ctx.plan[0], keys), summed)
        return (*whole, None, None, None)


def _tiles(
    queries: Tensor, keys: Tensor, values: Tensor, pattern: Pattern, dropout: float, seed: int
) -> Iterator[_TileBatch]:
    """Yield every tile of a pattern; the scores of one are gone when the next one comes.

    Both passes go through here with the same seed, and so meet the same dropout.
    """
    rows, length, size = queries.shape
    plan = _plan(pattern, length, queries.dtype, queries.device)
    generator = torch.Generator(queries.device).manual_seed(seed) if dropout > 0 else None
    summaries = _summaries(keys, values, pattern)
    space = _space(queries, plan)
    for part, added in plan:
        key_source, value_source = summaries if part.summaries else (keys, values)
        fused = added is None and generator is None and _fuses(queries, values)
        # The fused kernel cuts by itself, but groups of keys that overlap are copied for it.
        room = (sys.maxsize if part.keys.groups == 1 else FUSED_ROOM) if fused else space.numel()
        for some, first, count in tiles.cuts(part, rows, room):
            asked, seen = (
                tiles.groups(some_tiles, first, count) for some_tiles in (part.queries, part.keys)
            )
            value = tiles.take(value_source, some, seen)
            if fused:
                key = tiles.take(key_source, some, seen)
                yield _TileBatch(part, some, asked, seen, None, None, key, value)
                continue
            query = tiles.take(queries, some, asked) * (LOG2_E * size**-0.5)
            key = tiles.take(key_source, some, seen)
            scores = _shaped(space, (*query.shape[:2], key.shape[1]))
            torch.bmm(query, key.transpose(1, 2), out=scores)
            scores = scores.to(_wide(queries.dtype))
            if added is not None:
                scores.add_(added)
            held = None
            if generator is not None:
                held = torch.empty_like(scores, dtype=queries.dtype)
                held.bernoulli_(1 - dropout, generator=generator).div_(1 - dropout)
            yield _TileBatch(part, some, asked, seen, scores, held, key, value)


def _fuses(queries: Tensor, values: Tensor) -> bool:
    known = queries.device.type == "cpu" and hasattr(torch.ops.aten, FUSED)
    return known and queries.shape == values.shape


def _fused_forward(queries: Tensor, tile: _TileBatch) -> tuple[Tensor, Tensor]:
    """Output of a tile (G, Q, E) and its log-sum-exp (G, Q) to the base 2."""
    query = tiles.take(queries, tile.rows, tile.queries)
    kernel = getattr(torch.ops.aten, FUSED)
    new, here = kernel(*(x[:, None] for x in (query, tile.key, tile.value)))
    return new.squeeze(1), here.squeeze(1) * LOG2_E


def _fused_backward(
    grad: Tensor, queries: Tensor, output: Tensor, total: Tensor, tile: _TileBatch
) -> tuple[Tensor, ...]:
    """Slopes of a tile's queries (G, Q, E), keys and values (G, K, E)."""
    wanted, query, known, sums = (
        tiles.take(x, tile.rows, tile.queries) for x in (grad, queries, output, total)
    )
    kernel = getattr(torch.ops.aten, f"{FUSED}_backward")
    given = (wanted, query, tile.key, tile.value, known, sums / LOG2_E)
    slopes = kernel(*(x[:, None] for x in given), 0.0, False)
    return tuple(slope.squeeze(1) for slope in slopes)


def _space(queries: Tensor, plan: _Plan) -> Tensor:
    """Room for the scores of a tile, used again for every one."""
    most = max(part.queries.groups * part.queries.items * part.keys.items for part, _ in plan)
    room = ROOM_ON_CPU if queries.device.type == "cpu" else ROOM_ELSEWHERE
    return queries.new_empty(min(room, len(queries) * most))


def _shaped(space: Tensor, shape: tuple[int, ...]) -> Tensor:
    needed = math.prod(shape)
    return (space if needed <= space.numel() else space.new_empty(needed))[:needed].view(shape)


def _add_to_queries(to: Tensor, tile: _TileBatch, values: Tensor) -> None:
    """Add values (G, Q, E) at a tile's queries, or put them there when it is the first."""
    known = tiles.view(to, tile.rows, tile.queries)
    (known.copy_ if tile.part.opens else known.add_)(values.view(known.shape))


def _join(output: Tensor, total: Tensor, tile: _TileBatch, new: Tensor, here: Tensor) -> None:
    """Join a new output (G, Q, E), of log-sum-exp (G, Q), to what is known of their queries."""
    known, sums = (tiles.view(x, tile.rows, tile.queries) for x in (output, total))
    new, here = new.view(known.shape), here.view(sums.shape)
    if tile.part.opens:
        known.copy_(new)
        sums.copy_(here)
    else:
        known.lerp_(new, torch.sigmoid((here - sums) / LOG2_E)[..., None].to(new.dtype))
        sums.copy_(torch.logaddexp2(sums, here))


def _summaries(keys: Tensor, values: Tensor, pattern: Pattern) -> tuple[Tensor, ...]:
    """Keys and values of the summaries of all blocks, side by side."""
    if "summary" not in pattern.sets:
        return ()
    positions = _summary_positions(pattern, keys)
    return keys.index_select(1, positions), values.index_select(1, positions)


def _summary_positions(pattern: Pattern, keys: Tensor) -> Tensor:
    return torch.from_numpy(summary_positions(pattern, keys.shape[1])).to(keys.device)
