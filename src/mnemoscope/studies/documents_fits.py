"""One training of the study `documents`, and everything that is measured on it.

Shapes: N documents, E entries, K size of a representation.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mnemoscope.errors import UserError
from mnemoscope.models.huggingface import blocks as parts
from mnemoscope.models.huggingface.config import DocumentOptions, Guidance
from mnemoscope.models.huggingface.documents import DocumentMemory
from mnemoscope.models.huggingface.fitting import Fitted
from mnemoscope.models.huggingface.reading import Reader
from mnemoscope.models.huggingface.texts import Documents
from mnemoscope.studies.documents_base import cut, halves, small_model

if TYPE_CHECKING:
    from mnemoscope.studies.documents import DocumentsStudy, Setting

NEWCOMERS = 3
LENGTHS = 8
GRID = 17
ON = 0.1  # a gate above this is open


@lru_cache(maxsize=1)
def _base(model: str | None, folder: Path, steps: int, device: str) -> tuple[Any, Any]:
    from mnemoscope.training.machine import join

    if model is None:
        base, tokenizer = small_model(folder / "small", steps=steps)
    else:
        from mnemoscope.models.huggingface.loading import load_model

        base, tokenizer = load_model(model)
    return base.to(join(device).device), tokenizer


@lru_cache(maxsize=2)
def _pieces(source: str | None, tokenizer: Any, tokens: int) -> dict[str, list[int]]:
    from mnemoscope.data.documents import read_documents

    return cut(halves()[1] if source is None else read_documents(source), tokenizer, tokens)


def measure(study: DocumentsStudy, folder: Path, seed: int, setting: Setting) -> dict[str, Any]:
    """Train one memory and look at it; plain values that JSON can hold."""
    model, tokenizer = _base(study.model, folder, study.base_steps, study.device)
    learnt, later, new = _texts(study, tokenizer, seed, setting["lengths"])
    options = DocumentOptions(**setting["options"], seed=seed)
    memory = DocumentMemory(model, options, tokenizer)
    try:
        with warnings.catch_warnings():
            # Pieces of one topic may be alike; τ is half-way by construction.
            warnings.simplefilter("ignore")
            run = memory.fit(
                learnt,
                Guidance(**setting["guidance"]),
                **setting["fitting"],
                seed=seed,
                silent=True,
            )
        values = _plain(memory, run, learnt, later)
        for look in setting["looks"]:
            values[look] = LOOKS[look](memory, run, learnt, new)
        return values
    finally:
        memory.detach()


def _texts(
    study: DocumentsStudy, tokenizer: Any, seed: int, lengths: bool
) -> tuple[Documents, Documents, dict[str, list[int]]]:
    """What is learnt, how each goes on, and texts nobody learnt; every seed has its own."""
    step = study.segment - 1
    most = LENGTHS if lengths else study.segments
    pieces = list(_pieces(study.source, tokenizer, (most + 1) * step + 1).items())
    need = study.documents + NEWCOMERS
    if len(pieces) < need:
        raise UserError(
            f"the texts give {len(pieces)} pieces of {most + 1} segments, but {need} are needed: "
            "fewer documents, shorter segments or more text"
        )
    start = seed * need
    chosen = [pieces[(start + place) % len(pieces)] for place in range(need)]
    learnt, later = {}, {}
    for place, (name, ids) in enumerate(chosen[: study.documents]):
        count = 1 + place * (LENGTHS - 1) // (study.documents - 1) if lengths else study.segments
        learnt[name] = ids[: count * step + 1]
        later[name] = ids[count * step : (count + 1) * step + 1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cutting = {"segment": study.segment}
        return (
            Documents(learnt, **cutting),
            Documents(later, **cutting),
            {name: ids[: study.segments * step + 1] for name, ids in chosen[study.documents :]},
        )


def _plain(
    memory: DocumentMemory, run: Fitted, learnt: Documents, later: Documents
) -> dict[str, Any]:
    found, held = memory.contexts(learnt), memory.contexts(later)
    selection = memory.selection().cpu()
    values: dict[str, Any] = {
        "right": float(found.right.mean()),
        "wrong": float(found.wrong.mean()),
        "none": float(found.none.mean()),
        "named": found.accuracy,
        "tau": run.tau,
        "later right": float(held.right.mean()),
        "later none": float(held.none.mean()),
        "later wrong": float(held.wrong.mean()),
        "moved": run.moved,
        "seconds": run.seconds,
        "losses": [run.losses[step] for step in range(0, len(run.losses), 5)],
    }
    values |= shape_of(selection)
    first = run.moments[0].selection
    values["selection moved"] = float((selection - first).norm() / first.norm().clamp(min=1e-12))
    if memory.options.control == "none":
        with parts.frozen(memory.model), torch.no_grad():
            zero = memory.store.chosen(torch.zeros_like(memory.store.keys[:1]))[0]
            values["random"] = float(found.random.mean())
            values["zero"] = float(Reader(memory, learnt, keep=True).all_losses(zero).mean())
    return values


def shape_of(selection: Tensor) -> dict[str, float]:
    """Size and spread of a selection (N, E): open and dead entries, lengths, distances."""
    count = len(selection)
    length = float(selection.norm(dim=1).mean())
    apart = torch.cdist(selection, selection).sum() / (count * (count - 1))
    return {
        "on": float((selection.abs() > ON).float().mean()),
        "dead": float((selection.abs() <= 1e-6).all(0).float().mean()),
        "negative": float((selection < 0).float().mean()),
        "length": length,
        "apart": float(apart),
        "apart / length": float(apart) / max(length, 1e-12),
    }


def _frames(memory: DocumentMemory, run: Fitted, *_: Any) -> dict[str, Any]:
    """How the selection came to be, step by step."""
    return {
        "steps": [moment.step for moment in run.moments],
        "selections": [_round(moment.selection) for moment in run.moments],
        "shapes": [shape_of(moment.selection) for moment in run.moments],
        "names": list(memory.names),
    }


def _map(memory: DocumentMemory, *_: Any) -> dict[str, Any]:
    return {"selection": _round(memory.selection().cpu()), "names": list(memory.names)}


def _gradients(memory: DocumentMemory, run: Fitted, *_: Any) -> list[dict[str, float]]:
    return [
        {
            "step": moment.step,
            "right": moment.keys_gradient_right,
            "wrong": moment.keys_gradient_wrong,
        }
        for moment in run.moments
    ]


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


def _split(memory: DocumentMemory, run: Fitted, learnt: Documents, *_: Any) -> dict[str, Any]:
    """Raised and lowered for every document, and words of the entry that is opened widest."""
    found = [memory.split(name, learnt) for name in memory.names]
    entry = int(memory.selection().abs().mean(0).argmax())
    words = memory.words(entry, 5)
    return {
        "names": [one.name for one in found],
        "raised": [one.raised for one in found],
        "lowered": [one.lowered for one in found],
        "entry": entry,
        "raises": [word for word, _ in words.raised],
        "lowers": [word for word, _ in words.lowered],
        "signs": _signs(memory, learnt, entry),
    }


def _signs(memory: DocumentMemory, learnt: Documents, entry: int) -> dict[str, float]:
    """Change of log p of the word an entry raises most, for both signs of gate and of value."""
    from mnemoscope.models.huggingface.contexts import direct_logits

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


def _plane(memory: DocumentMemory, run: Fitted, learnt: Documents, *_: Any) -> dict[str, Any]:
    """Loss of the first three documents over the plane of representations, and how smooth g is."""
    with parts.frozen(memory.model), torch.no_grad():
        keys = memory.store.keys
        edge = 1.3 * float(keys.abs().max())
        ticks = torch.linspace(-edge, edge, GRID)
        places = torch.cartesian_prod(ticks, ticks).to(keys)  # y outer, x inner
        places = places[:, [1, 0]]
        chosen = memory.store.chosen(places)
        maps, misses = [], []
        for place, name in enumerate(memory.names[:3]):
            reader = Reader(memory, learnt.pick([name]), keep=True)
            first = torch.zeros(len(places), dtype=torch.long, device=reader.device)
            losses = reader.all_losses(chosen, first)
            maps.append(_round(losses.view(GRID, GRID).cpu()))
            best = places[int(losses.argmin())]
            misses.append(float((best - keys[place]).norm()) / (edge * math.sqrt(2)))
        weight = memory.store.mapping[0]
        steepest = {"tanh": 1.0, "relu": 1.0, "sigmoid": 0.25}[memory.options.select]
        bound = steepest * float(torch.linalg.matrix_norm(weight, 2))
        ratios = torch.pdist(chosen) / torch.pdist(places)
        return {
            "ticks": ticks.tolist(),
            "maps": maps,
            "names": memory.names[:3],
            "keys": _round(keys[:3].cpu()),
            "miss": misses,
            "bound": bound,
            "steepest": float(ratios.max()),
            "half": [_under_half(one) for one in maps],
        }


def _under_half(values: list[list[float]]) -> float:
    """Share of the plane whose loss is nearer to the lowest than to the highest."""
    flat = torch.tensor(values).flatten()
    return float((flat < (flat.min() + flat.max()) / 2).float().mean())


def _sizes(memory: DocumentMemory, run: Fitted, learnt: Documents, *_: Any) -> dict[str, Any]:
    selection = memory.selection().cpu()
    return {
        "tokens": [len(ids) for ids in learnt.ids.values()],
        "size": selection.abs().sum(1).tolist(),
        "on": (selection.abs() > ON).float().sum(1).tolist(),
    }


def _newcomers(
    memory: DocumentMemory, run: Fitted, learnt: Documents, new: dict[str, list[int]]
) -> dict[str, float]:
    """Documents that nobody learnt, put where the encoder says: does their text gain?"""
    memory.names = list(memory.names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, ids in new.items():
            memory.add(name, ids, epochs=1, silent=True)
        texts = Documents(new, segment=learnt.segment)
    found = memory.contexts(texts)
    return {
        "right": float(found.right.mean()),
        "none": float(found.none.mean()),
        "wrong": float(found.wrong.mean()),
        "named": found.accuracy,
    }


def _round(values: Tensor) -> list[list[float]]:
    return [[round(float(one), 4) for one in row] for row in values]


LOOKS: dict[str, Callable[..., Any]] = {
    "frames": _frames,
    "map": _map,
    "gradients": _gradients,
    "gates": _gates,
    "split": _split,
    "plane": _plane,
    "sizes": _sizes,
    "newcomers": _newcomers,
}
