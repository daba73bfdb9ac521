"""What learns from other novels before it reads those held out: densities of a signal, and LoRA."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from mnemoscope.core.errors import UserError
from mnemoscope.huggingface import blocks as parts
from mnemoscope.huggingface.config import InfiniteFitting
from mnemoscope.huggingface.infinite.fitting import DivergedFitError, Learner, fit
from mnemoscope.huggingface.infinite.memory import InfiniteMemory
from mnemoscope.studies.infinite.adapter import LowRank
from mnemoscope.studies.infinite.contestants import Contestant, learners, thirds
from mnemoscope.studies.infinite.novels import LETTERS, attached, novels, passages, stream, told
from mnemoscope.studies.infinite.result import NovelLosses, TriedRate
from mnemoscope.studies.pretrained import reader_of
from mnemoscope.studies.trials import measure_all

if TYPE_CHECKING:
    from mnemoscope.studies.infinite.study import InfiniteStudy

# Novels that are read side by side in training.
ROWS = 8


@dataclass(frozen=True)
class Learnt:
    """What one learner at one rate came to.

    nats    per token on passages that nothing is reported of; 0 where there is no choice to make
    losses  on those that are reported; None if it diverged
    """

    nats: float
    losses: NovelLosses | None


def measure_learners(
    study: InfiniteStudy, layers: int, folder: Path
) -> tuple[tuple[NovelLosses, ...], tuple[TriedRate, ...]]:
    """Train every learner at every rate; the best of each on unreported passages is reported."""
    rates = study.learning_rates or (study.lr,)
    known = learners(study.learners, study.windows[0], study.vectors, layers)
    plan = {f"{name} at {rate:g}": (name, rate) for name in known for rate in rates}

    def measure(name: str) -> Learnt:
        kind, rate = plan[name]
        return _learnt(study, known[kind], rate, folder)

    found = measure_all([*plan], measure, folder / "learnt", 1, "learning novels", kind=Learnt)
    best = []
    for kind in known:
        first = min((f"{kind} at {rate:g}" for rate in rates), key=lambda name: found[name].nats)
        losses = found[first].losses
        if losses is None:
            raise UserError(f"{kind} diverged at every learning rate: give lower ones")
        best.append(losses)
    tried = (TriedRate(*plan[name], one.nats) for name, one in found.items())
    return tuple(best), tuple(tried) if len(rates) > 1 else ()


def _learnt(study: InfiniteStudy, contestant: Contestant, rate: float, folder: Path) -> Learnt:
    memory = attached(study, contestant)
    undo: list[Callable[[], None]] = [memory.detach]
    try:
        learner = None
        if contestant.kind == "lora":
            adapter, lowest = _adapter(memory)
            undo.append(adapter.detach)
            learner = Learner(adapter, lowest)
        try:
            _train(study, memory, learner, contestant.tbptt, rate, folder)
        except DivergedFitError:
            return Learnt(math.inf, None)
        nats = 0.0
        if study.learning_rates:
            nats = float(stream(memory, passages(study, choosing=True), False)[0]["own"].mean())
        given = passages(study)
        return Learnt(
            nats, told(contestant.reader, given, *stream(memory, given, contestant.controls))
        )
    finally:
        for step in undo:
            step()


def _train(
    study: InfiniteStudy,
    memory: InfiniteMemory,
    learner: Learner | None,
    tbptt: int,
    rate: float,
    folder: Path,
) -> None:
    """Learn from a third of the way into the other novels on.

    Hidden states below what learns are kept in a file, if anything is below it.
    """
    trained, _ = novels(study.source or "", study.held_out)
    _, tokenizer = reader_of(study)
    texts = []
    for one in trained:
        piece = one.text[len(one.text) // 3 :][: LETTERS * study.novel_tokens]
        ids = tokenizer(piece, add_special_tokens=False)["input_ids"][: study.novel_tokens]
        texts.append(torch.tensor(ids))
    lowest = learner.lowest if learner is not None else min(memory.reading_layers)
    options = InfiniteFitting.make(
        steps=-(-study.novel_steps // tbptt), lr=rate, rows=ROWS, tbptt=tbptt,
        cache="on" if lowest else "off", cache_file=folder / "hidden.safetensors",
    )  # fmt: skip
    with torch.enable_grad():
        fit(memory, texts, ROWS, options, learner)


def _adapter(memory: InfiniteMemory) -> tuple[LowRank, int]:
    """LoRA in the upper third, with as many weights as densities have there; its first block."""
    begin, end = thirds(len(memory.blocks))["upper third"]
    weights = (end - begin) * 4 * parts.width_of(memory.base) ** 2
    return LowRank(memory.blocks[begin:end], weights, seed=0), begin
