"""What a model has learnt, on held-out data: loss, bits recalled and accuracy.

Bits recalled is what the answer cost less than guessing: max(0, log₂ V − cross-entropy in bits).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from mnemoscope.data.batch import NO_QUESTION, NO_WORD, Split, Stream, Task
from mnemoscope.models.evaluating import evaluating
from mnemoscope.models.model import SequenceModel, StreamState
from mnemoscope.models.seq2seq.source import SourceModel


@dataclass(frozen=True)
class Score:
    """Means over all questions asked: loss in nats, accuracy in [0, 1]."""

    loss: float
    accuracy: float
    questions: int

    def bits(self, choices: int) -> float:
        """Bits recalled per question when the answer is one of ``choices`` equally likely ones."""
        return max(0.0, math.log2(choices) - self.loss / math.log(2))


def encode(model: SequenceModel, source: NDArray[np.int64]) -> StreamState:
    """Let a model read the source (B, S) of a batch."""
    assert isinstance(model, SourceModel)
    words = torch.from_numpy(source)
    known = words != NO_WORD
    device = model.readout.weight.device
    return model.encode(words.clamp(min=0).to(device), known.to(device))


@torch.no_grad()
def evaluate(
    model: SequenceModel,
    task: Task,
    *,
    batches: int,
    size: int = 32,
    seed: int = 0,
    segment: int | None = None,
    split: Split = "valid",
) -> Score:
    """Ask ``batches`` held-out batches of ``size`` rows, ``segment`` tokens at a time."""
    device = model.readout.weight.device
    loss, right, asked = 0.0, 0, 0
    state = None
    stream = Stream(task, size, seed, split, segment or 128)
    with evaluating(model):
        for _ in range(batches):
            batch = next(stream)
            tokens = torch.from_numpy(batch.tokens).to(device)
            targets = torch.from_numpy(batch.targets).to(device)
            if state is None or not task.carries or batch.starts.all():
                state = None
            elif batch.starts.any():
                state = state.reset(torch.from_numpy(batch.starts))
            if batch.source is not None:
                state = encode(model, batch.source)
            length = segment or tokens.shape[1]
            for start in range(0, tokens.shape[1], length):
                if (batch.targets[:, start : start + length] == NO_QUESTION).all():
                    state = model.prefill(tokens[:, start : start + length], state)
                    continue
                out = model(tokens[:, start : start + length], state)
                state = out.state
                logits = out.logits.float().flatten(0, 1)
                # A model that reads out last answers there only.
                answer = targets[:, start : start + length][:, -out.logits.shape[1] :].flatten()
                loss += float(F.cross_entropy(logits, answer, reduction="sum"))
                right += int((logits.argmax(-1) == answer).sum())
                asked += int((answer != NO_QUESTION).sum())
    return Score(loss / asked, right / asked, asked)
