"""Ask a trained model of the study `sorting`: this is where models run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import torch

from mnemoscope.core.errors import UserError
from mnemoscope.data.sorting import Sorting
from mnemoscope.models.generation import generate
from mnemoscope.models.model import SequenceModel
from mnemoscope.studies.rates import Tried
from mnemoscope.studies.sorting.attention import measure_attention
from mnemoscope.studies.sorting.oracles import TEST_SEED
from mnemoscope.studies.sorting.result import ROWS, Examined
from mnemoscope.training.evaluate import evaluate
from mnemoscope.training.machine import join
from mnemoscope.training.run import Run


def examine(folder: Path, lengths: Sequence[int], episodes: int, segment: int) -> Examined:
    """Test a finished run at every length, and measure its attention at the trained one."""
    run = Run.open(folder)
    task = run.config.task
    if not isinstance(task, Sorting):
        raise UserError(f"{folder} is not a run of the task sorting")
    model = run.model().to(join(run.config.training.device).device)
    size = min(32, episodes)
    batches = math.ceil(episodes / size)
    forced, free = [], []
    for length in lengths:
        test = Sorting.make(symbols=task.symbols, length=length)
        score = evaluate(model, test, batches=batches, size=size, seed=TEST_SEED, segment=segment)
        forced.append(score.accuracy)
        free.append(free_running(model, test, batches, size, segment))
    plain = run.model()
    afar = Sorting.make(symbols=task.symbols, length=lengths[-1])
    return Examined(
        tuple(forced),
        tuple(free),
        measure_attention(plain, task, ROWS, segment),
        run.seconds,
        measure_attention(plain, afar, ROWS, segment),
    )


def examine_sweep(folder: Path) -> Tried:
    """What a training that tried a rate came to, on the held-out streams of its own seed."""
    return Tried(Run.open(folder).valid_loss)


def free_running(
    model: SequenceModel, task: Sorting, batches: int, size: int, segment: int
) -> float:
    """Accuracy when the model reads its own answers instead of the true ones."""
    right, asked = 0, 0
    device = model.readout.weight.device
    for number in range(batches):
        batch = task.batch(number, size, seed=TEST_SEED, split="valid")
        prompt = torch.from_numpy(batch.tokens[:, : task.length + 1]).to(device)
        answer = torch.from_numpy(batch.targets[:, task.length :]).to(device)
        *before, last = torch.split(prompt, segment, 1)
        state = None
        with torch.no_grad():
            for part in before:
                state = model.prefill(part, state)
        said = generate(model, last, task.symbols, state=state, temperature=0).tokens
        right += int((said == answer).sum())
        asked += answer.numel()
    return right / asked
