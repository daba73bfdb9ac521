from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemoscope.report.claims import Claim, Gate, claims_table

PASSED = Gate("loss below that of bigrams", [0.3, 0.2, 0.4])
FAILED = Gate("loss below that of bigrams", [0.3, -0.2, 0.4])
numbers = st.lists(st.floats(-10, 10), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("effects", "verdict"),
    [
        ([0.2, 0.3, 0.25], "seen"),
        ([0.2, 0.3, 0.01], "unclear"),
        ([0.01, 0.02, -0.01], "not seen"),
        ([-0.2, 0.01, -0.3], "not seen"),
        ([-0.2, -0.3, -0.25], "opposite"),
        ([0.2, np.nan, 0.3], "not judged"),
        ([], "not judged"),
    ],
)
def test_a_verdict_asks_for_the_size_in_every_training(effects: list[float], verdict: str) -> None:
    assert Claim("LM loses the input", effects, 0.1, "nats").verdict == verdict


def test_no_verdict_on_models_that_did_not_learn_or_at_the_ceiling() -> None:
    effects = [0.5, 0.6, 0.7]
    assert Claim("c", effects, 0.1, gates=[PASSED]).verdict == "seen"
    failed = Claim("c", effects, 0.1, gates=[PASSED, FAILED])
    assert failed.verdict == "not judged"
    assert "passed by 2 of 3" in failed.why
    full = Claim("c", effects, 0.1, ceiling="4.6 of 4.6 nats that 100 clusters can tell")
    assert (full.verdict, full.why) == ("not judged", "4.6 of 4.6 nats that 100 clusters can tell")


def test_a_gate_nobody_reached_is_not_passed() -> None:
    assert not Gate("g", []).passed
    assert "no training" in str(Gate("g", []))
    unknown = Gate("g", [0.1, np.nan])
    assert not unknown.passed
    assert str(unknown) == "g: not measured"


@given(numbers, st.floats(0.01, 5))
def test_a_larger_effect_never_unsays_a_claim(effects: list[float], least: float) -> None:
    order = ["opposite", "not seen", "unclear", "seen"]
    before = Claim("c", effects, least).verdict
    after = Claim("c", [one + least for one in effects], least).verdict
    assert order.index(after) >= order.index(before)


@given(numbers, st.floats(0.01, 5))
def test_seen_means_every_training(effects: list[float], least: float) -> None:
    assert (Claim("c", effects, least).verdict == "seen") == (min(effects) >= least)


def test_a_table_shows_size_and_needed_size() -> None:
    table = claims_table("Claims", [Claim("c", [0.2, 0.4], 0.1, "nats")], more={"c": "by layer"})
    assert table.rows == [["c", "seen", "0.3 (0.2 to 0.4) nats against 0.1; 2 of 2", "by layer"]]
