"""What can be measured of one trained memory of the study `documents`.

Shapes: N documents, E entries, K size of a representation.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mnemoscope.huggingface import blocks as parts
from mnemoscope.huggingface.documents.contexts import direct_logits
from mnemoscope.huggingface.documents.fitting import Fitted
from mnemoscope.huggingface.documents.losses import Reader
from mnemoscope.huggingface.documents.memory import DocumentMemory
from mnemoscope.huggingface.texts import Documents
from mnemoscope.studies.documents.result import (
    Frames,
    Gradient,
    Line,
    Matrix,
    Newcomers,
    Paths,
    Plane,
    SelectionMap,
    ShapeAt,
    Sizes,
    Split,
)

GRID = 17
POINTS = 11
ON = 0.1  # a gate above this is open


def shape_of(selection: Tensor) -> dict[str, Any]:
    """The fields of `Shape`, of a selection (N, E)."""
    count = len(selection)
    apart = torch.cdist(selection, selection).sum() / (count * (count - 1))
    return {
        "on": float((selection.abs() > ON).float().mean()),
        "dead": float((selection.abs() <= 1e-6).all(0).float().mean()),
        "negative": float((selection < 0).float().mean()),
        "length": float(selection.norm(dim=1).mean()),
        "apart": float(apart),
    }


def _frames(memory: DocumentMemory, run: Fitted, *_: Any) -> Frames:
    """How the selection came to be, step by step, as finely as colours show it."""
    return Frames(
        tuple(moment.step for moment in run.moments),
        tuple(_round(moment.selection, 2) for moment in run.moments),
        tuple(memory.names),
    )


def _paths(memory: DocumentMemory, run: Fitted, *_: Any) -> Paths:
    keys = torch.stack([moment.keys for moment in run.moments])  # (M, N, K)
    points, shown = keys, 1.0
    if keys.shape[2] > 2:
        apart = keys - keys.mean((0, 1))
        _, sizes, axes = torch.linalg.svd(apart.flatten(0, 1), full_matrices=False)
        points = apart @ axes[:2].T
        shown = float(sizes[:2].square().sum() / sizes.square().sum())
    moved = (keys - keys[0]).flatten(1).norm(dim=1) / keys[0].norm().clamp(min=1e-12)
    return Paths(
        steps=tuple(moment.step for moment in run.moments),
        points=tuple(_round(F.pad(one, (0, 2 - one.shape[1])), 3) for one in points),
        names=tuple(memory.names),
        shown=shown,
        moved=tuple(round(float(one), 4) for one in moved),
    )


def _shapes(memory: DocumentMemory, run: Fitted, *_: Any) -> tuple[ShapeAt, ...]:
    return tuple(ShapeAt(step=moment.step, **shape_of(moment.selection)) for moment in run.moments)


def _map(memory: DocumentMemory, *_: Any) -> SelectionMap:
    return SelectionMap(_round(memory.selection().cpu()), tuple(memory.names))


def _gradients(memory: DocumentMemory, run: Fitted, *_: Any) -> tuple[Gradient, ...]:
    return tuple(
        Gradient(moment.step, moment.keys_gradient_right, moment.keys_gradient_wrong)
        for moment in run.moments
    )


def _gates(memory: DocumentMemory, run: Fitted, learnt: Documents, *_: Any) -> dict[str, float]:
    """What happens to the right document's loss when gates are changed by hand."""
    with parts.frozen(memory.model), torch.no_grad():
        reader = Reader(memory, learnt, keep=True)
        own = memory.store.selection()[reader.segments.owner]
        size = own.abs().mean(1, keepdim=True)
        changes = {
            "as learnt": own,
            "negatives closed": own.clamp(min=0),
            "positives closed": own.clamp(max=0),
            "negatives made positive": own.abs(),
            "all flipped": -own,
            "signs only": own.sign() * size,
            "all closed": torch.zeros_like(own),
        }
        return {name: float(reader.all_losses(gate).mean()) for name, gate in changes.items()}


def _split(memory: DocumentMemory, run: Fitted, learnt: Documents, *_: Any) -> Split:
    """How log p changes for every document, and words of the entry that is opened widest."""
    found = [memory.split(name, learnt) for name in memory.names]
    entry = int(memory.selection().abs().mean(0).argmax())
    words = memory.words(entry, 5)
    return Split(
        names=tuple(one.name for one in found),
        over_average=tuple(one.gain - one.average for one in found),
        average=tuple(one.average for one in found),
        rival=tuple(one.rival for one in found),
        entry=entry,
        raises=tuple(word for word, _ in words.raised),
        lowers=tuple(word for word, _ in words.lowered),
        signs=_signs(memory, learnt, entry),
    )


def _signs(memory: DocumentMemory, learnt: Documents, entry: int) -> dict[str, float]:
    """Change of log p of the word an entry raises most, for both signs of gate and of value."""
    word = int(direct_logits(memory)[:, entry].argmax())
    values, bias = memory.store.values.detach().clone(), memory.store.bias.detach().clone()
    found: dict[str, float] = {}
    with parts.frozen(memory.model), torch.no_grad():
        reader = Reader(memory, learnt, keep=True)
        rows = torch.arange(min(8, len(reader.segments)), device=reader.device)
        before = reader.logits(rows, None)[0].log_softmax(-1)[..., word].mean()
        memory.store.bias.zero_()
        for value in (1, -1):
            memory.store.values.copy_(value * values)
            for gate in (1, 0, -1):
                open_one = torch.zeros_like(memory.store.selection()[:1])
                open_one[0, entry] = gate
                chosen = open_one.expand(len(rows), -1)
                after = reader.logits(rows, chosen)[0].log_softmax(-1)[..., word].mean()
                found[f"value {value:+d}, gate {gate:+d}"] = float(after - before)
        memory.store.values.copy_(values)
        memory.store.bias.copy_(bias)
    return found


def _plane(memory: DocumentMemory, run: Fitted, learnt: Documents, *_: Any) -> Plane:
    """Loss of the first three documents over the plane of representations, and how smooth g is."""
    with parts.frozen(memory.model), torch.no_grad():
        keys = memory.store.keys
        edge = 1.3 * float(keys.abs().max())
        ticks = torch.linspace(-edge, edge, GRID)
        points = torch.cartesian_prod(ticks, ticks).to(keys)  # y outer, x inner
        points = points[:, [1, 0]]
        chosen = memory.store.chosen(points)
        maps, misses = [], []
        for number, name in enumerate(memory.names[:3]):
            reader = Reader(memory, learnt.pick([name]), keep=True)
            first = torch.zeros(len(points), dtype=torch.long, device=reader.device)
            losses = reader.all_losses(chosen, first)
            maps.append(_round(losses.view(GRID, GRID).cpu()))
            best = points[int(losses.argmin())]
            misses.append(float((best - keys[number]).norm()) / (edge * math.sqrt(2)))
        weight = memory.store.mapping[0]
        steepest = {"tanh": 1.0, "relu": 1.0, "sigmoid": 0.25}[memory.options.select]
        bound = steepest * float(torch.linalg.matrix_norm(weight, 2))
        ratios = torch.pdist(chosen) / torch.pdist(points)
        return Plane(
            ticks=tuple(ticks.tolist()),
            maps=tuple(maps),
            names=tuple(memory.names[:3]),
            keys=_round(keys[:3].cpu()),
            miss=tuple(misses),
            half=tuple(map(_under_half, maps)),
            steepest=float(ratios.max()),
            bound=bound,
        )


def _line(memory: DocumentMemory, run: Fitted, learnt: Documents, *_: Any) -> Line:
    """Loss of a document on the way from its representation to another's; masks mix instead."""
    share = torch.linspace(0, 1, POINTS)[:, None]
    found: list[tuple[float, ...]] = []
    with parts.frozen(memory.model), torch.no_grad():
        masked = memory.options.control != "none"
        ends = memory.store.selection() if masked else memory.store.keys
        for number in range(min(3, len(ends))):
            start, end = ends[number], ends[(number + 1) % len(ends)]
            way = start + share.to(start) * (end - start)
            reader = Reader(memory, learnt.pick([memory.names[number]]), keep=True)
            losses = [reader.all_losses(one).mean() for one in
                      (way if masked else memory.store.chosen(way))]  # fmt: skip
            found.append(tuple(round(float(loss), 4) for loss in losses))
    return Line(tuple(share[:, 0].tolist()), tuple(found))


def _under_half(values: Matrix) -> float:
    """Share of the plane whose loss is nearer to the lowest than to the highest."""
    flat = torch.tensor(values).flatten()
    return float((flat < (flat.min() + flat.max()) / 2).float().mean())


def _sizes(memory: DocumentMemory, run: Fitted, learnt: Documents, *_: Any) -> Sizes:
    sizes = memory.selection().cpu().abs()
    return Sizes(
        tokens=tuple(len(ids) for ids in learnt.ids.values()),
        size=tuple(sizes.sum(1).tolist()),
        on=tuple((sizes > ON).float().sum(1).tolist()),
    )


def _newcomers(
    memory: DocumentMemory, run: Fitted, learnt: Documents, new: dict[str, list[int]]
) -> Newcomers:
    """Documents that nobody learnt, put where the encoder says: does their text gain?"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, ids in new.items():
            memory.add(name, ids, epochs=1, silent=True)
        texts = Documents(new, segment=learnt.segment)
    found = memory.contexts(texts)
    return Newcomers(
        right=float(found.right.mean()),
        none=float(found.none.mean()),
        wrong=float(found.wrong.mean()),
        named=found.accuracy,
    )


def _round(values: Tensor, digits: int = 4) -> Matrix:
    return tuple(tuple(round(float(one), digits) for one in row) for row in values)


# By the field of `Fit` that each fills.
MEASURES: dict[str, Callable[..., Any]] = {
    "frames": _frames,
    "paths": _paths,
    "shapes": _shapes,
    "line": _line,
    "map": _map,
    "gradients": _gradients,
    "gates": _gates,
    "split": _split,
    "plane": _plane,
    "sizes": _sizes,
    "newcomers": _newcomers,
}
