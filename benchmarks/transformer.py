"""Training a Transformer: our loop against a bare one, our model against Hugging Face's GPT-2."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.gpt2 import HEADS, LAYERS, VOCAB, pair
from benchmarks.measure import Row, compared, interleave
from mnemoscope.data.batch import Batch, Split, Task
from mnemoscope.models.model import SequenceModel
from mnemoscope.training.config import RunConfig, Training
from mnemoscope.training.loop import _join, _Trainer
from mnemoscope.training.optimizer import make_optimizer
from mnemoscope.training.run import Run
from mnemoscope.training.schedule import learning_rate

TITLE = "Training a Transformer: our loop and our model against others"
WIDTH, BATCH, LENGTH = 256, 8, 256
STEPS_PER_ROUND, ROUNDS = 5, 9
SETTING = (
    f"Language model of {LAYERS} layers, width {WIDTH}, {HEADS} heads, vocabulary {VOCAB}, batch "
    f"{BATCH}, length {LENGTH}, no dropout; same weights (from GPT-2) and batches, first losses "
    "checked to be equal. *Loop* is our training step with its data, checks and metrics (one look "
    f"at the losses per {STEPS_PER_ROUND} steps; a run looks half as often), without checkpoints "
    "and evaluation; *bare* is a plain torch loop over prepared tensors: same fused AdamW, "
    "clipping and schedule."
)


class Noise(Task):
    """Random tokens, each to be told from the one before: nothing to learn, all of it to do."""

    tokens: int = LENGTH

    @property
    def vocab(self) -> int:
        return VOCAB

    @property
    def longest(self) -> int:
        return self.tokens

    def batch(
        self, step: int, size: int, *, seed: int, split: Split = "train", length: int = 128
    ) -> Batch:
        drawn = self.generator(step, seed, split).integers(VOCAB, size=(size, self.tokens + 1))
        tokens, targets = drawn[:, :-1], drawn[:, 1:]
        return Batch(tokens, targets, tokens * 0, tokens[:, 0] >= 0)


class Bare:
    """What one would write by hand: the least that trains."""

    def __init__(
        self, model: nn.Module, read: Callable[[Tensor], Tensor], task: Noise, settings: Training
    ) -> None:
        self.model, self.read, self.settings = model.train(), read, settings
        self.optimizer = make_optimizer(self.model, settings)
        steps = range(settings.steps)
        batches = [task.batch(step, settings.batch, seed=settings.seed) for step in steps]
        self.data = [(torch.tensor(one.tokens), torch.tensor(one.targets)) for one in batches]
        self.done = 0
        self.loss = torch.tensor(torch.nan)

    def steps(self, count: int) -> None:
        for _ in range(count):
            for group in self.optimizer.param_groups:
                group["lr"] = learning_rate(self.done, self.settings)
            tokens, targets = self.data[self.done]
            self.optimizer.zero_grad(set_to_none=True)
            self.loss = F.cross_entropy(self.read(tokens).flatten(0, 1), targets.flatten())
            torch.autograd.backward(self.loss)
            nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
            self.optimizer.step()
            self.done += 1


class Loop:
    """The trainer behind `mnemoscope.training.loop.train`, a few steps at a time."""

    def __init__(self, model: SequenceModel, task: Noise, settings: Training, folder: Path) -> None:
        config = RunConfig("noise", task, "transformer", model.config, settings)
        self.trainer = _Trainer(Run.create(folder, config), model, _join(settings), silent=True)
        self.done = 0
        self.loss = torch.tensor(torch.nan)

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.trainer.step(self.done)
            self.done += 1
        self.loss = self.trainer.pending[-1][1].sum()  # of the task, and what memories ask for
        self.trainer._look()


def run(quick: bool) -> list[Row]:
    """Train three models at the same time, a few steps each in turn."""
    count, rounds = (1, 2) if quick else (STEPS_PER_ROUND, ROUNDS)
    width, batch, length = (64, 2, 32) if quick else (WIDTH, BATCH, LENGTH)
    # One step to compare losses, one round to warm up.
    settings = Training.make(steps=1 + count * (rounds + 1), batch=batch, lr=3e-4, device="cpu")
    task = Noise(tokens=length)
    in_loop, _ = pair(width)
    ours, theirs = pair(width)
    with tempfile.TemporaryDirectory() as folder:
        loop = Loop(in_loop, task, settings, Path(folder) / "run")
        bare = Bare(ours, lambda tokens: ours(tokens).logits, task, settings)
        gpt2 = Bare(theirs, lambda tokens: theirs(tokens, use_cache=False).logits, task, settings)
        contestants: dict[str, Bare | Loop] = {"loop": loop, "bare": bare, "gpt2": gpt2}
        for one in contestants.values():
            one.steps(1)
        for one in contestants.values():
            torch.testing.assert_close(one.loss.detach(), bare.loss.detach())
        times = interleave(
            {name: partial(one.steps, count) for name, one in contestants.items()}, rounds
        )
    tokens = batch * length * count
    loops = "our loop / bare torch loop, same model: time"
    models = "our model / Hugging Face GPT-2, same bare loop: tokens per second"
    return [
        compared(
            *("loop_time_vs_bare", loops, times, "loop", "bare"),
            goal="≤ 1.05",
            tokens=tokens,
            slower=True,
        ),
        compared(
            *("tokens_per_s_vs_hf_gpt2", models, times, "bare", "gpt2"), goal="≥ 1", tokens=tokens
        ),
    ]
