"""What of the study `infinite` runs models: memories attached, trained, and their past weighed.

Shapes: R texts, T tokens.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mnemoscope.core.seeds import derive
from mnemoscope.core.statistics import Estimate
from mnemoscope.huggingface.config import InfiniteOptions
from mnemoscope.huggingface.infinite.memory import InfiniteMemory
from mnemoscope.studies.documents.base import halves, small_model, train, untrained
from mnemoscope.studies.infinite.result import KINDS, Fit, Kind, Measured

if TYPE_CHECKING:
    from mnemoscope.studies.infinite.study import InfiniteStudy

ROWS = 64


def measure(study: InfiniteStudy, folder: Path, name: str) -> Measured:
    """Attach every kind of memory to one of the study's models, in turn."""
    text, seed = study.models[name]
    if text == "made-up":
        model = _made_up_model(study, seed)
        learnt: Any = made_up(study, study.streams, study.window * study.steps + 1, seed, "learnt")
        read: Any = made_up(study, study.streams, study.window * study.read, seed, "read")
        window, basis = study.window, study.basis
    else:
        window, basis = study.topic_window, study.topic_basis
        model, learnt, topics = _topics(folder, study.base_steps)
        read = [ids[: study.topic_read] for ids in topics if len(ids) >= 3 * window]
    found: dict[Kind, Fit] = {}
    for kind in KINDS:
        options = InfiniteOptions(
            window=window,
            mem_len=0 if kind == "signal" else window // 2,
            signal=kind != "transformer_xl",
            basis=basis,
            seed=seed,
        )
        memory = InfiniteMemory(model, options)
        try:
            if kind != "transformer_xl":
                memory.fit(learnt, steps=study.steps, lr=study.lr, silent=True)
            found[kind] = _weigh(memory, read)
        finally:
            memory.detach()
    return Measured(found, word_frequencies(learnt, read, model.config.vocab_size))


def word_frequencies(learnt: Any, read: Any, vocab: int) -> float:
    """Nats per token of single words as frequent as in what was learnt, each once more."""
    known, asked = (torch.cat([torch.as_tensor(row) for row in rows]) for rows in (learnt, read))
    counts = torch.bincount(known, minlength=vocab).double() + 1
    cost = -(counts / counts.sum()).log()
    return float(cost[asked].mean())


def _weigh(memory: InfiniteMemory, read: Any) -> Fit:
    found = memory.worth(read, silent=True)
    with torch.no_grad():
        state = memory(torch.as_tensor(read[0])[None, : 2 * memory.options.window]).state
    losses = {name: tuple(losses.tolist()) for name, losses in found.by_position().items()}
    return Fit(
        losses={"own": losses["own"], "none": losses["none"], "other": losses["other"]},
        over_none=Estimate(*found.gain("none")),
        over_other=Estimate(*found.gain("other")),
        bytes=state.nbytes,
        windows=int(found.windows.sum()),
    )


def made_up(study: InfiniteStudy, rows: int, length: int, seed: int, purpose: str) -> Tensor:
    """Texts (R, T), each of a few words of its own, drawn again and again with equal chances."""
    generator = torch.Generator().manual_seed(derive(seed, "made-up", purpose))
    own = torch.rand(rows, study.vocab_size, generator=generator).argsort(1)[:, : study.own]
    return own.gather(1, torch.randint(study.own, (rows, length), generator=generator))


def _made_up_model(study: InfiniteStudy, seed: int) -> Any:
    """A small GPT-NeoX that has read single windows only."""
    model = untrained(study.vocab_size, 64, 2, 2 * study.window, derive(seed, "made-up model"))

    def batch(step: int) -> Tensor:
        return made_up(study, ROWS, study.window, seed, f"window {step}")

    train(model, batch, study.base_steps, "made-up model")
    return model.eval()


@lru_cache(maxsize=1)
def _topics(folder: Path, steps: int) -> tuple[Any, list[list[int]], list[list[int]]]:
    """The small model, half of the topics it never saw to learn from, the others to read."""
    model, tokenizer = small_model(folder / "small", steps=steps)
    unseen = [tokenizer.encode(topic.text) for topic in halves()[1]]
    return model, unseen[::2], unseen[1::2]
