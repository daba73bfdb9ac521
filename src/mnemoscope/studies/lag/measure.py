"""What the study `lag` asks of trained models: recall after a wait, gates, the next letter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from mnemoscope.core.registry import find
from mnemoscope.core.seeds import derive
from mnemoscope.data.copy import Copy
from mnemoscope.lenses.gates.lens import Gates
from mnemoscope.studies.lag.result import LETTERS, WORD, Asked, GatesSeen
from mnemoscope.training.evaluate import evaluate
from mnemoscope.training.machine import join
from mnemoscope.training.run import Run

# The learning rate is chosen on one set of held-out episodes, the curves are drawn from another.
CHOOSING, REPORTING = 1, 2
# The gate that decides what stays.
KEEPING = {"lstm": "forget", "gru": "update"}


def ask(folder: Path, waits: Sequence[int], trained: int, episodes: int) -> Asked:
    """Ask a trained model after every wait: accuracy and bits per episode."""
    run = Run.open(folder)
    task = run.config.task
    model = run.model().to(join(run.config.training.device).device)
    assert isinstance(task, Copy)
    size = min(64, episodes)
    batches = math.ceil(episodes / size)

    def recall(wait: int, seed: int) -> tuple[float, float]:
        score = evaluate(model, task.at(wait), batches=batches, size=size, seed=seed)
        return score.accuracy, task.items * score.bits(task.symbols)

    accuracy, bits = zip(*(recall(wait, REPORTING) for wait in waits), strict=True)
    choosing = [recall(wait, CHOOSING)[1] for wait in waits if wait <= trained]
    return Asked(accuracy, bits, float(np.mean(choosing)), run.seconds)


def watch_gates(folder: Path) -> GatesSeen:
    """What the gates of a trained LSTM or GRU do in 32 episodes of one length."""
    run = Run.open(folder)
    task, gate = run.config.task, KEEPING[run.config.memory]
    assert isinstance(task, Copy)
    tokens = torch.from_numpy(task.at(min(16, task.lag)).batch(0, 32, seed=0).tokens)
    lens = Gates()
    lens.observe(run.model(), tokens)
    seen = lens.result()

    def read(token: int) -> str:
        if token < task.symbols:
            return chr(ord("A") + token)
        return "?" if token == task.vocab - 1 else "·"

    return GatesSeen(
        gate,
        seen.names,
        *(seen.mean.T.tolist(), seen.low.T.tolist(), seen.high.T.tolist()),
        seen.example[:, seen.names.index(gate)].tolist(),
        tuple(map(read, tokens[0].tolist())),
    )


def spell(memory: str, seed: int, steps: int = 30, **options: Any) -> tuple[tuple[float, ...], ...]:
    """Teach a small model one word; return its next-letter probabilities after each letter.

    Row t is over the sorted letters of the word, after reading its first t + 1 letters.
    """
    ids = torch.tensor([[LETTERS.index(letter) for letter in WORD]])
    torch.manual_seed(derive(seed, "spelling", memory))
    model = find("memory", memory).make(vocab=len(LETTERS), width=16, **options).build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(steps):
        optimizer.zero_grad()
        logits = model(ids[:, :-1]).logits
        torch.autograd.backward(F.cross_entropy(logits[0], ids[0, 1:]))
        optimizer.step()
    with torch.no_grad():
        chances = model.eval()(ids[:, :-1]).logits[0].softmax(-1)
    return tuple(map(tuple, chances.tolist()))
