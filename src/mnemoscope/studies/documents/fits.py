"""One training of the study `documents`: which texts are learnt, and what is measured of each."""

from __future__ import annotations

import warnings
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from mnemoscope.core.errors import UserError
from mnemoscope.huggingface import blocks as parts
from mnemoscope.huggingface.config import DocumentOptions, Guidance
from mnemoscope.huggingface.documents.fitting import Fitted
from mnemoscope.huggingface.documents.losses import Reader
from mnemoscope.huggingface.documents.memory import DocumentMemory
from mnemoscope.huggingface.texts import Documents
from mnemoscope.studies.documents.base import cut, halves, small_model
from mnemoscope.studies.documents.looks import LOOKS, shape_of

if TYPE_CHECKING:
    from mnemoscope.studies.documents.study import DocumentsStudy, Setting

NEWCOMERS = 3
LENGTHS = 8
# Unrelated texts are read under so many of the documents.
STRANGERS = 10


@lru_cache(maxsize=1)
def _base(model: str | None, folder: Path, steps: int, device: str) -> tuple[Any, Any]:
    from mnemoscope.training.machine import join

    if model is None:
        base, tokenizer = small_model(folder / "small", steps=steps)
    else:
        from mnemoscope.huggingface.loading import load_model

        base, tokenizer = load_model(model)
    return base.to(join(device).device), tokenizer


@lru_cache(maxsize=4)
def _pieces(source: str | None, tokenizer: Any, tokens: int) -> dict[str, list[int]]:
    from mnemoscope.data.documents import read_documents

    return cut(halves()[1] if source is None else read_documents(source), tokenizer, tokens)


def measure(study: DocumentsStudy, folder: Path, seed: int, setting: Setting) -> dict[str, Any]:
    """Train one memory and look at it; plain values that JSON can hold."""
    model, tokenizer = _base(study.model, folder, study.base_steps, study.device)
    learnt, later, new = _texts(study, tokenizer, seed, **setting["texts"])
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
        values = _plain(memory, run, learnt, later, new)
        for look in setting["looks"]:
            values[look] = LOOKS[look](memory, run, learnt, new)
        return values
    finally:
        memory.detach()


def _texts(
    study: DocumentsStudy,
    tokenizer: Any,
    seed: int,
    documents: int,
    segments: int,
    segment: int,
    lengths: bool,
) -> tuple[Documents, Documents, dict[str, list[int]]]:
    """What is learnt, how each goes on, and texts nobody learnt; every seed has its own."""
    step = segment - 1
    most = LENGTHS if lengths else segments
    pieces = list(_pieces(study.source, tokenizer, (most + 1) * step + 1).items())
    need = documents + NEWCOMERS
    if len(pieces) < need:
        raise UserError(
            f"the texts give {len(pieces)} pieces of {most + 1} segments, but {need} are needed: "
            "fewer documents, shorter segments or more text"
        )
    start = seed * need
    chosen = [pieces[(start + place) % len(pieces)] for place in range(need)]
    learnt, later = {}, {}
    for place, (name, ids) in enumerate(chosen[:documents]):
        count = 1 + place * (LENGTHS - 1) // (documents - 1) if lengths else segments
        learnt[name] = ids[: count * step + 1]
        later[name] = ids[count * step : (count + 1) * step + 1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (
            Documents(learnt, segment=segment),
            Documents(later, segment=segment),
            {name: ids[: segments * step + 1] for name, ids in chosen[documents:]},
        )


def _plain(
    memory: DocumentMemory,
    run: Fitted,
    learnt: Documents,
    later: Documents,
    new: dict[str, list[int]],
) -> dict[str, Any]:
    found, held = memory.contexts(learnt), memory.contexts(later, most=50)
    selection = memory.selection()
    values: dict[str, Any] = {
        "right": float(found.right.mean()),
        "wrong": float(found.wrong.mean()),
        "none": float(found.none.mean()),
        "named": found.accuracy,
        "tau": run.tau,
        "later right": float(held.right.mean()),
        "later none": float(held.none.mean()),
        "moved": run.moved,
        "flipped": run.flipped,
        "seconds": run.seconds,
        "steps": run.steps,
        "segments": run.segments,
    }
    values |= shape_of(selection.cpu())
    first = run.moments[0].selection
    moved = (selection.cpu() - first).norm() / first.norm().clamp(min=1e-12)
    values["selection moved"] = float(moved)
    with parts.frozen(memory.model), torch.no_grad():
        strangers = Reader(memory, Documents(new, segment=learnt.segment), keep=True)
        under = [strangers.all_losses(one).mean() for one in selection[:STRANGERS]]
        values["unrelated"] = float(torch.stack(under).mean())
        values["unrelated none"] = float(strangers.all_losses(None).mean())
        if memory.options.control == "none":
            zero = memory.store.chosen(torch.zeros_like(memory.store.keys[:1]))[0]
            values["random"] = float(found.random.mean())
            values["zero"] = float(Reader(memory, learnt, keep=True).all_losses(zero).mean())
    return values
