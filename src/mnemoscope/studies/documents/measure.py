"""One training of the study `documents`: which texts are learnt, and what is measured of each."""

from __future__ import annotations

import warnings
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from mnemoscope.core.errors import UserError
from mnemoscope.data.documents import read_documents
from mnemoscope.huggingface import blocks as parts
from mnemoscope.huggingface.config import DocumentOptions, Guidance
from mnemoscope.huggingface.documents.fitting import Fitted
from mnemoscope.huggingface.documents.losses import Reader
from mnemoscope.huggingface.documents.memory import DocumentMemory
from mnemoscope.huggingface.loading import architecture, load_model
from mnemoscope.huggingface.texts import Documents
from mnemoscope.studies.documents.base import cut, halves, small_model
from mnemoscope.studies.documents.measurements import MEASURES, shape_of
from mnemoscope.studies.documents.result import Fit
from mnemoscope.studies.documents.settings import MANY_SEGMENT, MANY_SEGMENTS, Setting
from mnemoscope.training.machine import join

if TYPE_CHECKING:
    from mnemoscope.studies.documents.study import DocumentsStudy

# Texts that nobody learns, for every training.
NEWCOMERS = 3
# Segments of the longest document where lengths differ.
LENGTHS = 8
# Unrelated texts are read under so many of the documents.
STRANGERS = 10
# The memory of many documents.
MANY_ENTRIES, MANY_KEY_DIM = 128, 32
# Measures of the training itself; to record both gradients costs as much as the step.
RECORDED = {"frames", "paths", "shapes", "gradients"}
NEVER = 1_000_000


def check(study: DocumentsStudy) -> None:
    """Refuse what is not there before anything is trained."""
    for setting in study.settings():
        _options(study, setting, seed=0)
    if study.source is not None:
        read_documents(study.source)
    if study.model is not None:
        architecture(study.model)


def measure(study: DocumentsStudy, folder: Path, name: str) -> Fit:
    """Train the memory of this name and measure it."""
    setting, seed = study.trainings()[name]
    model, tokenizer = _base(study.model, folder, study.base_steps, study.device)
    learnt, later, new = _texts(study, setting, tokenizer, seed)
    record = {} if RECORDED.intersection(setting.measures) else {"record": NEVER}
    memory = DocumentMemory(model, _options(study, setting, seed), tokenizer)
    try:
        with warnings.catch_warnings():
            # Texts of one topic may be alike; τ is half-way by construction.
            warnings.simplefilter("ignore")
            run = memory.fit(
                learnt,
                Guidance(alpha=setting.alpha, negative=setting.negative),
                epochs=study.epochs if setting.documents is None else study.many_epochs,
                stop=False,  # settings are compared after as many steps
                # However many documents there are, an epoch of them is one step.
                batch=study.batch if setting.count is None else setting.count * study.segments,
                lr=setting.lr or study.lr,
                optimizer=setting.optimizer,
                **record,
                seed=seed,
                silent=True,
            )
        losses = _losses(memory, run, learnt, later, new)
        more = {key: MEASURES[key](memory, run, learnt, new) for key in setting.measures}
        return Fit(**losses, **more)
    finally:
        memory.detach()


def _options(study: DocumentsStudy, setting: Setting, seed: int) -> DocumentOptions:
    many = setting.documents is not None
    return DocumentOptions.make(
        layer=study.layers[-1] if setting.layer is None else setting.layer,
        entries=MANY_ENTRIES if many else study.entries,
        key_dim=MANY_KEY_DIM if many else setting.key_dim or study.key_dim,
        select=setting.select,
        depth=setting.depth,
        start=setting.start,
        learned=setting.learned,
        control=setting.control,
        seed=seed,
    )


@lru_cache(maxsize=1)
def _base(model: str | None, folder: Path, steps: int, device: str) -> tuple[Any, Any]:
    if model is None:
        base, tokenizer = small_model(folder / "small", steps=steps)
    else:
        base, tokenizer = load_model(model)
    return base.to(join(device).device), tokenizer


@lru_cache(maxsize=4)
def _fixed_length(source: str | None, tokenizer: Any, tokens: int) -> dict[str, list[int]]:
    return cut(halves()[1] if source is None else read_documents(source), tokenizer, tokens)


def _texts(
    study: DocumentsStudy, setting: Setting, tokenizer: Any, seed: int
) -> tuple[Documents, Documents, dict[str, list[int]]]:
    """What is learnt, how each goes on, and texts nobody learnt; every seed has its own."""
    documents, segments, segment = setting.count or study.documents, study.segments, study.segment
    if setting.documents is not None:
        documents, segments, segment = setting.documents, MANY_SEGMENTS, MANY_SEGMENT
    step = segment - 1
    most = LENGTHS if setting.lengths else segments
    texts = list(_fixed_length(study.source, tokenizer, (most + 1) * step + 1).items())
    need = documents + NEWCOMERS
    if len(texts) < need:
        raise UserError(
            f"the source gives {len(texts)} texts of {most + 1} segments, but {need} are needed: "
            "fewer documents, shorter segments or more text"
        )
    start = seed * need
    chosen = [texts[(start + number) % len(texts)] for number in range(need)]
    learnt, later = {}, {}
    for number, (name, ids) in enumerate(chosen[:documents]):
        count = 1 + number * (LENGTHS - 1) // (documents - 1) if setting.lengths else segments
        learnt[name] = ids[: count * step + 1]
        later[name] = ids[count * step : (count + 1) * step + 1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (
            Documents(learnt, segment=segment),
            Documents(later, segment=segment),
            {name: ids[: segments * step + 1] for name, ids in chosen[documents:]},
        )


def _losses(
    memory: DocumentMemory,
    run: Fitted,
    learnt: Documents,
    later: Documents,
    new: dict[str, list[int]],
) -> dict[str, Any]:
    """The fields of `Fit` that every training has."""
    found, held = memory.contexts(learnt), memory.contexts(later, most=50)
    selection = memory.selection()
    values: dict[str, Any] = {
        "right": float(found.right.mean()),
        "wrong": float(found.wrong.mean()),
        "none": float(found.none.mean()),
        "named": found.accuracy,
        "tau": run.tau,
        "later_right": float(held.right.mean()),
        "later_none": float(held.none.mean()),
        "moved": run.moved,
        "flipped": run.flipped,
        "seconds": run.seconds,
        "steps": run.steps,
        "segments": run.segments,
    }
    values |= shape_of(selection.cpu())
    first = run.moments[0].selection
    moved = (selection.cpu() - first).norm() / first.norm().clamp(min=1e-12)
    values["selection_moved"] = float(moved)
    with parts.frozen(memory.model), torch.no_grad():
        strangers = Reader(memory, Documents(new, segment=learnt.segment), keep=True)
        under = [strangers.all_losses(one).mean() for one in selection[:STRANGERS]]
        values["unrelated"] = float(torch.stack(under).mean())
        values["unrelated_none"] = float(strangers.all_losses(None).mean())
        if memory.options.control == "none":
            zero = memory.store.chosen(torch.zeros_like(memory.store.keys[:1]))[0]
            values["random"] = float(found.random.mean())
            values["zero"] = float(Reader(memory, learnt, keep=True).all_losses(zero).mean())
    return values
