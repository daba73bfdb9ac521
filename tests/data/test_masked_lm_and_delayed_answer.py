from __future__ import annotations

import numpy as np
import pytest
import torch

import mnemoscope as ms
from mnemoscope.core.errors import UserError
from mnemoscope.data.batch import NO_QUESTION
from mnemoscope.data.delayed_answer import DelayedAnswer
from mnemoscope.data.masked_lm import MaskedLM
from mnemoscope.training.config import RunConfig


def test_calls_are_answered_so_many_tokens_later():
    task = DelayedAnswer.make(objective="next", calls=5, back=4, answered=0.8, length=200)
    batch = task.batch(0, 40, seed=1)
    words = np.concatenate((batch.tokens, batch.targets[:, -1:]), 1)
    assert np.array_equal(batch.tokens[:, 1:], batch.targets[:, :-1])
    assert words.max() < task.vocab - 1
    before, after = words[:, :-4], words[:, 4:]
    call = before < 5
    assert (after[call] == before[call] + 5).mean() == pytest.approx(0.8, abs=0.02)
    assert (after[~call] < 5).all()  # an answer calls nothing
    # By position nothing is to be seen: calls are as frequent at any of them.
    assert np.ptp((words < 5).reshape(40, -1)[:, 4:].mean(0).reshape(-1, 197)) < 0.6


@pytest.mark.parametrize("kind", [DelayedAnswer, MaskedLM])
def test_what_is_hidden_is_asked_for(kind):
    task = kind.make(length=32)
    plain = kind.make(length=32, objective="next").batch(3, 50, seed=2).tokens
    batch = task.batch(3, 50, seed=2)
    asked = batch.targets != NO_QUESTION
    assert asked.any(1).all()
    assert np.array_equal(batch.targets[asked], plain[asked])
    assert np.array_equal(batch.tokens[~asked], plain[~asked])
    assert (batch.tokens[asked] == task.vocab - 1).mean() == pytest.approx(0.8, abs=0.08)
    again = task.batch(3, 50, seed=2)
    assert np.array_equal(again.tokens, batch.tokens)


def test_who_looks_ahead_may_not_be_asked_for_the_next_token():
    with pytest.raises(UserError, match="reads the answers"):
        RunConfig.of("delayed_answer", "encoder", {"objective": "next"}).check()
    RunConfig.of("delayed_answer", "encoder", {"objective": "next", "causal": True}).check()
    with pytest.raises(UserError, match="no call is answered"):
        DelayedAnswer.make(length=5, back=7)


@pytest.mark.parametrize("kind", ["sinusoidal", "learned", "rotary", "none"])
def test_an_encoder_knows_positions_as_it_is_told(kind):
    torch.manual_seed(0)
    model = ms.build("encoder", vocab=9, width=16, heads=2, positions=kind, context=12).eval()
    tokens = torch.tensor([[1, 2, 3, 4, 5, 6]])
    turned = tokens.flip(1)
    same = torch.allclose(model(tokens).logits.flip(1), model(turned).logits, atol=1e-6)
    assert same == (kind == "none")
    if kind == "learned":
        with pytest.raises(UserError, match="learned positions end at 12"):
            model(torch.zeros(1, 13, dtype=torch.long))
    with pytest.raises(UserError, match="is odd"):
        ms.build("encoder", vocab=9, width=6, heads=2, positions="rotary")


def test_influence_of_a_token_keeps_rotary_positions():
    from mnemoscope.lenses.influence.lens import record, rerun
    from mnemoscope.open import open_reader

    torch.manual_seed(0)
    model = ms.build("encoder", vocab=9, width=16, heads=2, positions="rotary").eval()
    tokens = torch.randint(9, (2, 7))
    with torch.no_grad():
        reader = open_reader(model)
        (name, call), *_ = record(reader, tokens).items()
        given, _ = call
        plain = model.layers[0](given[0], None, given[2])
        again = rerun(reader, name, call, torch.zeros(2, 7, dtype=torch.bool))
    torch.testing.assert_close(again, plain)
