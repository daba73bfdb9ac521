from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from carriers import VOCAB, causal
from hypothesis import given
from hypothesis import strategies as st
from ledgers import Ledger

from mnemoscope.core.errors import UserError
from mnemoscope.data.recall import Recall
from mnemoscope.lenses.retention import lens as retention
from mnemoscope.lenses.retention.cost import cost, flops
from mnemoscope.lenses.retention.episodes import RetentionOptions, Spelling, curve_points
from mnemoscope.lenses.retention.lens import Retention, recalled
from mnemoscope.lenses.retention.result import RetentionResult
from mnemoscope.open import Stream, open_stream

TASK = Recall.make(keys=6, values=8, pairs=6, queries=6, length=32, joined=True)
FEW = {"items": (1, 2, 4), "overwrites": (0, 2, 4), "pairs": 4, "rest": 20, "episodes": 40}
FEW |= {"batch": 20, "segment": 5, "resamples": 100}


def ask(stream: Stream, task: Recall | None = TASK, **options: Any) -> RetentionResult:
    return Retention(stream, task, RetentionOptions.make(**{**FEW, **options})).ask()


def test_a_perfect_memory_recalls_every_bit_and_its_controls_none() -> None:
    found = ask(Ledger(TASK).stream(), ages=(1, 8, 32))
    np.testing.assert_allclose(found.by_age.bits, 3, atol=1e-6)
    np.testing.assert_allclose(found.by_items.bits, (3, 6, 12), atol=1e-6)
    np.testing.assert_allclose(found.by_overwrites.bits, 12, atol=1e-6)
    for curve in found.curves:
        assert curve.bits == pytest.approx(curve.most)
        assert curve.accuracy == pytest.approx([1.0] * len(curve.x))
        assert curve.blanked == (0.0,) * len(curve.x)
        assert curve.shuffled == (0.0,) * len(curve.x)
    assert found.half_life.value is None
    assert str(found.horizon) == "beyond"
    carried = 2 * TASK.keys * 8 + 8
    assert found.bytes == carried
    assert found.per_byte == pytest.approx(12 / carried)


@pytest.mark.parametrize("half", [4.0, 8.0])
def test_half_life_and_horizon_of_a_memory_that_fades_as_known(half: float) -> None:
    ledger = Ledger(TASK, half)
    ages = tuple(range(1, 60, 2))
    found = ask(ledger.stream(), ages=ages, episodes=4, resamples=10)
    expected = [3 + math.log2(ledger.right(age)) for age in ages]
    np.testing.assert_allclose(found.by_age.bits, expected, atol=1e-6)
    finer = np.linspace(1, 60, 5000)
    bits = np.array([3 + math.log2(ledger.right(age)) for age in finer])
    assert found.half_life.value == pytest.approx(finer[bits < bits[0] / 2][0], rel=0.03)
    assert found.horizon.value == pytest.approx(finer[bits < 3 / 20][0], rel=0.03)
    assert found.half_life.low == pytest.approx(found.half_life.high)


def test_more_than_eight_bits_per_byte_are_refused() -> None:
    with pytest.raises(AssertionError, match=r"12\.0 bits at items 4 from a state of 1 bytes"):
        ask(Ledger(TASK).stream(hides=True), ages=(1, 2))


def test_a_memory_that_keeps_the_first_value_loses_what_is_overwritten() -> None:
    found = ask(Ledger(TASK, keeps="first").stream(), ages=(1, 2))
    # Not each question alone: which of them asks for an overwritten key differs by episode.
    assert found.by_overwrites.bits[0] == pytest.approx(12)
    assert found.by_overwrites.bits[1:] == (0.0, 0.0)
    assert found.by_overwrites.accuracy == pytest.approx((1, 0.5, 0), abs=0.15)


def test_noise_is_not_taken_for_memory() -> None:
    class Noise(Ledger):
        def read(self, tokens: Any, table: Any) -> Any:
            logits, table = super().read(tokens, table)
            return torch.randn(logits.shape, generator=generator), table

    generator = torch.Generator().manual_seed(0)
    found = ask(Noise(TASK).stream(), ages=(1, 2, 4), episodes=200)
    for curve in found.curves:
        assert max(curve.bits) < 0.1
    assert found.half_life.value == 0
    # Had the maximum been taken before the mean, guessing would have been worth something.
    costs = np.random.default_rng(0).normal(3.5, 1, 500)
    assert np.maximum(0, 3 - costs).mean() > 0.1 > recalled(costs.mean(keepdims=True), 3)


@given(st.lists(st.floats(0, 50), min_size=1, max_size=9), st.floats(0.5, 12))
def test_bits_recalled_lie_between_none_and_all(costs: list[float], most: float) -> None:
    bits = float(recalled(np.array(costs), most))
    assert 0 <= bits <= most * len(costs) + 1e-9
    assert bits >= most * len(costs) - sum(costs) - 1e-9


def test_intervals_hold_the_estimate_and_shrink_with_episodes() -> None:
    model = open_stream("gru", vocab=TASK.vocab, width=12)
    few = ask(model, ages=(1, 8), episodes=20)
    many = ask(model, ages=(1, 8), episodes=320, batch=160)
    for found in (few, many):
        for curve in found.curves:
            for low, bits, high in zip(curve.low, curve.bits, curve.high, strict=True):
                assert low <= bits + 1e-9
                assert bits <= high + 1e-9
    assert sum(many.by_items.high) < sum(few.by_items.high)
    assert many.episodes == 320


@pytest.mark.parametrize(
    ("bits", "half_life", "horizon"),
    [
        ([3, 3, 3, 3], math.inf, math.inf),
        ([3, 2, 1, 0], 4 * 2**0.5, 8 * 2**0.9),  # 1.5 between 4 and 8, 0.1 between 8 and 16
        ([0, 2, 2, 0], 8 * 2**0.5, 8 * 2**0.95),  # what is odd at first does not count
        ([2, 0, 2, 2], 2 * 2**0.5, math.inf),
        ([0, 0, 0, 0.05], 0, 0),
    ],
)
def test_where_retention_curves_fall(bits: list[float], half_life: float, horizon: float) -> None:
    ages, found = (2, 4, 8, 16), np.array(bits, dtype=float)
    assert retention._half_life(ages, found, 0.1) == pytest.approx(half_life)
    assert retention._horizon(ages, found, 0.1) == pytest.approx(horizon)


def test_pairs_are_asked_once_and_ages_are_kept() -> None:
    for question in curve_points(TASK, RetentionOptions.make(**FEW, ages=(1, 3, 40))):
        batch = question.task.batch(0, 8, seed=0)
        for tokens, targets in zip(batch.tokens, batch.targets, strict=True):
            asked = tokens[targets >= 0].tolist()
            assert len(set(asked)) == len(asked)
        if question.along == "age":
            assert set(batch.ages[batch.ages > 0].tolist()) == {question.at}


def test_in_context_a_model_reads_its_own_words() -> None:
    task = Recall.make(keys=4, values=4, pairs=2, queries=2, length=12)
    spelling = Spelling(task, 40, avoid=[0, 1, 2], seed=3)
    plain = task.batch(0, 5, seed=0)
    spelt = spelling.spell(plain, 0)
    assert not set(spelt.tokens.ravel().tolist()) & {0, 1, 2}
    asked = plain.targets >= 0
    assert set(spelt.targets[asked].tolist()) <= set(spelling.answers)
    back = {one: number for number, one in enumerate(spelling.ids.tolist())}
    real = plain.tokens != 8
    assert [back[one] for one in spelt.tokens[real].tolist()] == plain.tokens[real].tolist()
    assert len(set(spelt.tokens[~real].tolist())) > 5
    with pytest.raises(UserError, match="too small for 4 keys"):
        Spelling(task, 8)


@pytest.mark.parametrize("family", ["llama", "mamba", "rwkv"])
def test_pretrained_models_are_asked_in_context(family: str) -> None:
    found = ask(
        open_stream(causal(family)), None, ages=(1, 4, 8), keys=8, values=8, episodes=8, rest=12
    )
    assert found.values == 8
    assert max(found.by_age.most) == 3
    assert found.per_byte <= 8
    assert found.flops > 0
    assert found.by_age.bytes[-1] >= found.by_age.bytes[0] > 0
    assert VOCAB > 16


def test_flops_are_those_of_the_products() -> None:
    rnn = open_stream("rnn", vocab=9, width=8)
    per_token = 2 * 2 * 8 * 8 + 2 * 8 * 9
    assert flops(rnn, torch.zeros(1, 5, dtype=torch.long)) == 5 * per_token
    assert flops(rnn, torch.zeros(3, 5, dtype=torch.long)) == 15 * per_token
    lstm = open_stream("lstm", vocab=9, width=8)
    assert flops(lstm, torch.zeros(1, 5, dtype=torch.long)) == 5 * (4 * 2 * 2 * 64 + 2 * 8 * 9)
    grown = cost(open_stream("transformer", vocab=9, width=8), (8, 16, 32), 4)
    # Two products of 8 numbers for every further token that is looked at.
    assert np.diff(grown.flops).tolist() == [8 * 2 * 2 * 8, 16 * 2 * 2 * 8]
    assert np.diff(grown.bytes).tolist() == [8 * 2 * 8 * 4, 16 * 2 * 8 * 4]
    flat = cost(open_stream("gru", vocab=9, width=8), (8, 32))
    assert flat.bytes[0] == flat.bytes[1] == 32
    assert flat.flops[0] == flat.flops[1]


def test_figures_and_tables_hold_the_controls() -> None:
    found = ask(Ledger(TASK).stream(), ages=(1, 8))
    names = {trace.name for trace in found.by_age.figure().data if trace.name}
    assert {"recalled", "state blanked", "answers shuffled"} <= names
    assert found.by_overwrites.figure().layout.xaxis.type != "log"
    assert found.by_items.table()[1]["items"] == 2
    assert {"bits", "low", "high", "blanked", "shuffled", "bytes"} <= set(found.by_age.table()[0])


def test_retention_refuses_what_cannot_be_asked() -> None:
    stream = Ledger(TASK).stream()
    with pytest.raises(UserError, match="too few for 16 pairs"):
        ask(stream, items=(1, 16))
    with pytest.raises(UserError, match="increasing"):
        RetentionOptions.make(ages=(4, 2))
    with pytest.raises(UserError, match="no 5 can be overwritten"):
        RetentionOptions.make(overwrites=(0, 5))
    with pytest.raises(UserError, match="too short for a question"):
        RetentionOptions.make(rest=3)
    lens = Retention(stream, TASK, RetentionOptions.make(**FEW, ages=(1, 2)))
    with pytest.raises(UserError, match="nothing was asked at age 1 yet"):
        lens.result()
    with pytest.raises(UserError, match="can read 64 tokens"):
        ask(open_stream(causal("gpt2")), None, ages=(1, 80), keys=8, values=8, episodes=4)
