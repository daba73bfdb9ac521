from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from mnemoscope.core.errors import UserError
from mnemoscope.data.copy import Copy
from mnemoscope.data.text import Text
from mnemoscope.memories.state import State
from mnemoscope.training.config import RunConfig
from mnemoscope.training.evaluate import Score, evaluate

Make = Callable[..., RunConfig]


@dataclass(frozen=True)
class FirstToken(State):
    token: Tensor


@dataclass(frozen=True)
class Answer:
    logits: Tensor
    state: FirstToken


class Rememberer(nn.Module):
    """Keeps the first token of a stream and says it at every token, ``sure`` nats above others."""

    def __init__(self, outputs: int, sure: float) -> None:
        super().__init__()
        self.readout = nn.Linear(1, outputs)
        self.outputs, self.sure = outputs, sure

    def forward(self, tokens: Tensor, state: FirstToken | None = None) -> Answer:
        first = tokens[:, 0] if state is None else state.token
        logits = self.sure * F.one_hot(first, self.outputs).float()
        return Answer(logits[:, None].expand(-1, tokens.shape[1], -1), FirstToken(first))

    def prefill(self, tokens: Tensor, state: FirstToken | None = None) -> FirstToken:
        return self(tokens, state).state


@pytest.mark.parametrize("segment", [None, 1, 2, 4, 99])
def test_a_model_that_knows_the_answer(segment: int | None) -> None:
    task = Copy(symbols=5, lag=4)
    knows = Rememberer(task.vocab, sure=50.0)
    score = evaluate(knows, task, batches=3, size=7, segment=segment)  # type: ignore[arg-type]
    assert score.accuracy == 1.0
    assert score.loss == pytest.approx(0.0, abs=1e-6)
    assert score.questions == 21
    assert score.bits(5) == pytest.approx(math.log2(5))


def test_a_model_that_knows_nothing() -> None:
    task = Copy(symbols=6, lag=1)
    score = evaluate(Rememberer(8, sure=0.0), task, batches=1, size=9)  # type: ignore[arg-type]
    assert score.loss == pytest.approx(math.log(8))
    assert score.bits(8) == pytest.approx(0.0, abs=1e-6)
    # Surer and wrong costs more than guessing, but nobody recalls less than nothing.
    assert Score(loss=5.0, accuracy=0.0, questions=1).bits(8) == 0.0


@given(st.floats(0, 20), st.integers(2, 10_000))
def test_bits_are_what_guessing_costs_more(loss: float, choices: int) -> None:
    bits = Score(loss, 0.5, 1).bits(choices)
    assert 0 <= bits <= math.log2(choices)
    # In nats: what guessing costs less what the answer cost.
    assert bits * math.log(2) == pytest.approx(max(0.0, math.log(choices) - loss), abs=1e-9)


@pytest.mark.parametrize("memory", ["gru", "transformer"])
@torch.no_grad()
def test_evaluation_reads_a_text_on(small: Make, memory: str) -> None:
    config = small("text", memory)
    assert isinstance(config.task, Text)
    torch.manual_seed(0)
    model = config.model.build()
    model.readout.weight *= 20  # so that what was read before matters
    ids = torch.from_numpy(config.task.tokens("valid").astype("int64"))
    lane = (len(ids) - 1) // 3
    tokens = torch.stack([ids[row * lane :][:32] for row in range(3)])
    targets = torch.stack([ids[row * lane + 1 :][:32] for row in range(3)])
    expected = F.cross_entropy(model(tokens).logits.flatten(0, 1), targets.flatten())
    forgetful = model(tokens.view(12, 8)).logits.flatten(0, 1)
    assert not torch.isclose(F.cross_entropy(forgetful, targets.flatten()), expected, rtol=1e-3)

    score = evaluate(model, config.task, batches=4, size=3, segment=8)
    assert score.questions == 96
    assert score.loss == pytest.approx(float(expected), rel=1e-5)


def test_a_text_read_twice_scores_as_read_once(small: Make) -> None:
    config = small("text")
    assert isinstance(config.task, Text)
    torch.manual_seed(0)
    model = config.model.build()
    epoch = (len(config.task.tokens("valid")) - 1) // 3 // 8
    once = evaluate(model, config.task, batches=epoch, size=3, segment=8)
    twice = evaluate(model, config.task, batches=2 * epoch, size=3, segment=8)
    assert twice.loss == pytest.approx(once.loss, rel=1e-9)
    assert twice.questions == 2 * once.questions


@torch.no_grad()
def test_held_out_data_are_not_those_of_training(small: Make) -> None:
    config = small()
    model = config.model.build()
    score = evaluate(model, config.task, batches=1, size=32, seed=3)
    losses = {}
    for split in ("train", "valid"):
        batch = config.task.batch(0, 32, seed=3, split=split)
        logits = model(torch.from_numpy(batch.tokens)).logits.flatten(0, 1)
        losses[split] = float(F.cross_entropy(logits, torch.from_numpy(batch.targets).flatten()))
    assert score.loss == pytest.approx(losses["valid"], rel=1e-5)
    assert score.loss != pytest.approx(losses["train"], rel=1e-5)


@pytest.mark.parametrize("training", [True, False])
def test_a_look_leaves_the_model_as_it_was(small: Make, training: bool) -> None:
    config = small(dropout=0.5)
    model = config.model.build().train(training)
    scores = {evaluate(model, config.task, batches=2) for _ in range(3)}
    assert len(scores) == 1  # nothing is dropped while it is looked at
    assert model.training is training
    assert all(weight.grad is None for weight in model.parameters())


def test_a_look_that_fails_leaves_it_so_too(small: Make) -> None:
    model = small().model.build().train()
    with pytest.raises(UserError, match="outside the vocabulary"):
        evaluate(model, Copy(symbols=99), batches=1)
    assert model.training
