from __future__ import annotations

import numpy as np

from mnemoscope.report.claims import Gate
from mnemoscope.studies.sentences import gated, ranked, signs


def test_an_order_is_said_only_where_seeds_are_as_far_apart_as_counts() -> None:
    values = {"a": np.array([0.80, 0.82]), "b": np.array([0.70, 0.77])}
    assert ranked(values, least=0.02) == "a (0.81) > b (0.73)"
    assert ranked(values, least=0.05) == "a (0.81) ≈ b (0.73)"
    turned = {name: -one for name, one in values.items()}
    assert ranked(turned, lowest_first=True, least=0.02) == "a (-0.81) < b (-0.73)"
    assert ranked({"a": np.ones(2), "b": np.ones(2)}, 0.0) == "a (1.00) ≈ b (1.00)"
    assert ranked({}, 0.1) == "none"


def test_signs_say_what_counts() -> None:
    assert "at least 0.02 bits above" in signs(0.02, "bits")
    assert "< means" in signs(0.02, "bits", lowest_first=True)


def test_who_did_not_pass_is_named_and_not_ranked() -> None:
    gates = {"a": Gate("above chance", [0.1, 0.2]), "b": Gate("above chance", [0.1, -0.2])}
    passed, told = gated(gates)
    assert passed == ["a"]
    assert told.startswith("Gate (above chance, in every seed): passed by a; not by b,")
