from __future__ import annotations

import numpy as np
import pytest
import torch

import mnemoscope as ms
from mnemoscope.core.errors import UserError
from mnemoscope.data.batch import NO_QUESTION
from mnemoscope.data.sentences import Sentences
from mnemoscope.data.translation import Translation
from mnemoscope.training.config import RunConfig

SMALL = {"vocabulary_size": 300, "sentences": 500}


@pytest.mark.parametrize("causal", [True, False])
def test_which_words_an_encoder_attends_to(causal):
    torch.manual_seed(0)
    model = ms.build("encoder", vocab=20, width=8, layers=2, heads=2, causal=causal).eval()
    tokens = torch.randint(20, (2, 7))
    other = tokens.clone()
    other[:, 4] = (other[:, 4] + 1) % 20
    moved = (model(tokens).logits - model(other).logits).abs().amax(-1) > 0
    assert moved[:, 4:].all()
    assert bool(moved[:, :4].any()) != causal


@pytest.mark.parametrize("causal", [True, False])
def test_padding_changes_nothing_for_an_encoder(causal):
    torch.manual_seed(0)
    model = ms.build("encoder", vocab=20, width=8, layers=2, heads=2, causal=causal).eval()
    tokens = torch.randint(20, (2, 7))
    mask = torch.arange(7).expand(2, 7) < 5
    padded = model(tokens, mask=mask).logits[:, :5]
    torch.testing.assert_close(padded, model(tokens[:, :5]).logits)


def test_an_encoder_goes_on_with_no_state_and_never_reads_its_answers():
    model = ms.build("encoder", vocab=20, width=8)
    out = model(torch.zeros(1, 3, dtype=torch.long))
    assert model(torch.zeros(1, 3, dtype=torch.long), out.state).logits.shape == (1, 3, 20)
    with pytest.raises(UserError, match="not a multiple"):
        ms.build("encoder", vocab=20, width=9)
    ahead = RunConfig.of("sentences", "encoder", {"objective": "next", **SMALL})
    with pytest.raises(UserError, match="reads the answers"):
        ahead.check()
    RunConfig.of("sentences", "encoder", {"objective": "next", "causal": True, **SMALL}).check()


def test_sentences_are_those_of_the_translation_task():
    task = Sentences.make(**SMALL)
    pairs = Translation.make(**SMALL)
    assert task.vocab == pairs.source_vocab + 1
    batch = pairs.batch(0, 4, seed=0, split="valid")
    known = {tuple(one) for one in task.encoded("valid")}
    assert batch.source is not None
    assert {tuple(row[row >= 0]) for row in batch.source} <= known


def test_the_next_word_is_asked_for_and_one_pass_has_every_sentence_once():
    task = Sentences.make(objective="next", **SMALL)
    seen = []
    for step in range(10_000):
        batch = task.batch(step, 16, seed=3)
        assert np.array_equal(batch.targets[:, :-1], batch.tokens[:, 1:])
        assert (batch.targets[:, -1] == NO_QUESTION).all()
        seen += [tuple(row) for row in batch.tokens]
        if len(seen) >= len(task.encoded("train")):
            break
    assert sorted(seen) == sorted(tuple(one) for one in task.encoded("train"))


def test_words_are_hidden_by_the_recipe():
    task = Sentences.make(**SMALL)
    words = np.tile(np.arange(40) % 250, (400, 1))
    words[:, -1] = task.words.size
    tokens, targets = task.hide(words, np.random.default_rng(0))
    asked = targets != NO_QUESTION
    assert asked.any(1).all()
    assert not asked[:, -1].any()
    assert asked[:, :-1].mean() == pytest.approx(0.15, abs=0.01)
    assert (targets[asked] == words[asked]).all()
    assert (tokens[~asked] == words[~asked]).all()
    hidden = tokens[asked] == task.words.size + 1
    kept = tokens[asked] == words[asked]
    assert hidden.mean() == pytest.approx(0.8, abs=0.03)
    assert kept.mean() == pytest.approx(0.1, abs=0.03)
    short = np.array([[5, task.words.size]])
    assert (task.hide(short, np.random.default_rng(0))[1] != NO_QUESTION).sum() == 1
