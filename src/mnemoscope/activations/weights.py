"""Where a model keeps the weights of its queries and keys, found by name and checked by running it.

Shapes: H heads, H' of them with keys of their own, D width, E width of a head.

Names and layouts differ: one matrix each, or queries, keys and values in one, part by part or head
by head. Every layout that fits is tried; the one that gives the queries and keys which the model
itself computes is taken, so a wrong guess cannot go unnoticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mnemoscope.activations.attention_inputs import (
    AttentionInputs,
    attentions,
    capture_attention_inputs,
)
from mnemoscope.activations.hooks import watch
from mnemoscope.core.errors import UserError
from mnemoscope.open import Reader

APART = (("q_proj", "k_proj"), ("query", "key"), ("q", "k"), ("q_lin", "k_lin"))
TOGETHER = ("qkv", "c_attn", "query_key_value", "qkv_proj", "Wqkv")
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-3}


@dataclass(frozen=True, eq=False)
class Rotary:
    """Rotary positions, as measured: columns (P, 2) that rotate together, angles per token (P,)."""

    columns: Tensor
    angles: Tensor


@dataclass(frozen=True, eq=False)
class HeadWeights:
    """query = [x, 1] · query[h], key = [y, 1] · key[h], before rotary positions.

    query, key   (H, D + 1, E), biases in the last row, keys that heads share repeated
    shared       how many heads share one key
    rotary       how positions rotate both afterwards, None when they do not
    """

    query: Tensor
    key: Tensor
    shared: int = 1
    rotary: Rotary | None = None


def project(vectors: Tensor, sides: Tensor) -> Tensor:
    """vectors (…, T, D), sides (H, D + 1, E) -> (…, H, T, E)."""
    sides = sides.to(vectors)
    projected: Tensor = vectors.unsqueeze(-3) @ sides[:, :-1] + sides[:, -1:]
    return projected


@torch.no_grad()
def head_weights(reader: Reader, tokens: Tensor) -> dict[int, HeadWeights]:
    """The weights of every layer; the model reads a few of tokens (N, T) to check them."""
    modules = attentions(reader.model)
    inputs: dict[int, AttentionInputs] = {}
    sites = [f"layer.{number}.attention.in" for number in modules]
    few = tokens[:4, :9]
    with (
        capture_attention_inputs(reader.model, lambda one: inputs.update({one.layer: one})),
        watch(reader.model, sites) as seen,
    ):
        reader.read(few)
    return {
        number: _fitting(number, module, seen[f"layer.{number}.attention.in"], inputs[number])
        for number, module in modules.items()
    }


def _fitting(number: int, module: nn.Module, given: Tensor, inputs: AttentionInputs) -> HeadWeights:
    tried = False
    for query, key in _layouts(module, inputs):
        tried = True
        plain = project(given, query)
        made = (plain, inputs.queries), (project(given, key), inputs.keys)
        limit = TOLERANCE.get(given.dtype, 5e-2)
        apart = [_same(ours, theirs, limit) for ours, theirs in made]
        if all(first for first, _ in apart):
            # The first position is not rotated: equal there and not after it means rotary.
            rotated = not all(rest for _, rest in apart)
            rotary = _rotary(number, plain.cpu(), inputs.queries.cpu()) if rotated else None
            return HeadWeights(query.cpu(), key.cpu(), inputs.shared, rotary)
    name = type(module).__name__
    if not tried:
        raise UserError(f"the query and key weights of {name} have names that are not known")
    raise UserError(
        f"queries and keys of layer {number} ({name}) are no linear map of what it is given: they "
        "are normalised or scaled on the way"
    )


def _rotary(number: int, plain: Tensor, rotated: Tensor) -> Rotary:
    """Which columns of (B, H, T, E) rotate together: their length stays, that of each changes.

    The first column rotates fastest and never alone; its partner tells whether neighbours rotate,
    or halves (of all columns, or of the first few when the rest stays).
    """
    width = plain.shape[3]
    before, after = plain.double().square(), rotated.double().square()
    change = (after - before)[..., 1:, :].flatten(0, 2)  # what one gains the other loses
    alone = (change + change[:, :1]).square().sum(0)
    partner = int(alone[1:].argmin()) + 1
    if alone[partner] > 1e-4 * change[:, 0].square().sum():
        raise UserError(f"the queries of layer {number} are rotated, but not in pairs")
    first = torch.arange(partner)
    columns = torch.stack((first, first + partner), 1)
    if partner == 1:
        columns = torch.arange(width - width % 2).view(-1, 2)
    pair = [torch.complex(*one.double()[:, :, 1, columns].unbind(-1)) for one in (plain, rotated)]
    return Rotary(columns, (pair[1] * pair[0].conj()).sum((0, 1)).angle())


def _same(ours: Tensor, theirs: Tensor, limit: float) -> tuple[bool, bool]:
    """Whether both are equal at the first position, and at all others."""

    def same(a: Tensor, b: Tensor) -> bool:
        return bool((a - b).norm() <= limit * b.norm() + 1e-12)

    return same(ours[:, :, :1], theirs[:, :, :1]), same(ours[:, :, 1:], theirs[:, :, 1:])


def _layouts(module: nn.Module, inputs: AttentionInputs) -> Iterator[tuple[Tensor, Tensor]]:
    """Query and key weights (H, D + 1, E) in all ways that the shapes allow."""
    heads, size = inputs.queries.shape[1], inputs.queries.shape[3]
    own = heads // inputs.shared

    def split(matrix: Tensor, count: int) -> Tensor:
        return matrix.view(len(matrix), count, size).transpose(0, 1)

    for first, second in APART:
        query, key = _matrix(module, first), _matrix(module, second)
        if query is None or key is None:
            continue
        if query.shape[1] == heads * size and key.shape[1] == own * size:
            yield split(query, heads), split(key, own).repeat_interleave(inputs.shared, 0)
    for name in TOGETHER:
        whole = _matrix(module, name)
        if whole is None or whole.shape[1] != (heads + 2 * own) * size:
            continue
        ends = heads * size, (heads + own) * size
        keys = split(whole[:, ends[0] : ends[1]], own).repeat_interleave(inputs.shared, 0)
        yield split(whole[:, : ends[0]], heads), keys
        groups = whole.view(len(whole), own, inputs.shared + 2, size).permute(1, 2, 0, 3)
        keys = groups[:, inputs.shared].repeat_interleave(inputs.shared, 0)
        yield groups[:, : inputs.shared].flatten(0, 1), keys


def _matrix(module: nn.Module, name: str) -> Tensor | None:
    """A projection as (D + 1, outputs), its bias in the last row."""
    part = getattr(module, name, None)
    weight = getattr(part, "weight", None)
    if not isinstance(weight, Tensor) or weight.dim() != 2:
        return None
    # GPT-2's Conv1D keeps the inputs first, as nobody else does.
    matrix = weight if type(part).__name__ == "Conv1D" else weight.T
    bias = getattr(part, "bias", None)
    last = torch.zeros_like(matrix[:1]) if bias is None else bias[None]
    return torch.cat((matrix, last)).detach()
