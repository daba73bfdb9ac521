"""Ages, and how a segment becomes JSON."""

from __future__ import annotations

import base64
import json
from itertools import pairwise

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from mnemoscope.activations.streams.page_stream import Step
from mnemoscope.activations.streams.views.view import Part
from mnemoscope.data.batch import NO_QUESTION
from mnemoscope.scope.frame import age_edges, by_age, frame


@given(st.integers(1, 3000))
def test_groups_of_ages_cover_all_that_was_read(read: int) -> None:
    edges = age_edges(read)
    assert edges[:3] == [0, 1, 2]
    assert edges == sorted(set(edges))
    assert edges[-1] >= read
    assert edges[-2] < read or read <= 2


@given(st.integers(0, 20), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_shares_by_age_add_up_where_all_ages_are_reached(first: int, new: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shares = np.tril(rng.random((new, first + new)), first)
    shares /= shares.sum(1, keepdims=True)
    edges = age_edges(first + new)
    last = by_age(shares[-1:], first + new - 1, edges)
    np.testing.assert_allclose(last.sum(), 1)
    slow = [
        sum(shares[-1, first + new - 1 - age] for age in range(low, min(high, first + new)))
        for low, high in pairwise(edges)
    ]
    np.testing.assert_allclose(last, slow)


def test_a_frame_is_json_and_its_map_is_the_mean_of_its_parts() -> None:
    one, two = np.eye(3, 5, 2), np.full((3, 5), 0.2)
    parts = [Part(0, "a", one), Part(1, "b", two, 4)]
    step = Step(torch.zeros(3, 4), None, 12, parts, [{"kind": "slots"}])
    found = json.loads(json.dumps(frame(step, 1, 2, [NO_QUESTION, 1, 3], "wxyz".__getitem__)))
    assert (found["segment"], found["first"], found["new"], found["bytes"]) == (1, 2, 3, 12)
    roots = np.frombuffer(base64.b64decode(found["map"]["data"]), np.uint8).reshape(3, 5) / 255
    low, high = found["map"]["low"], found["map"]["high"]
    np.testing.assert_allclose((low + roots * (high - low)) ** 2, (one + two) / 2, atol=0.01)
    assert found["ages"][0] == [0, 0]
    np.testing.assert_allclose(found["parts"][0]["ages"][0], 1)
    assert [part["heads"] for part in found["parts"]] == [0, 4]
    # Of four equally likely answers each costs two bits.
    assert found["answers"] == [None, "x", "z"]
    assert found["bits"] == [None, 2.0, 2.0]
    assert sorted(found["said"][0]) == [[name, 0.25] for name in "wxyz"]


def test_a_memory_that_shows_no_shares_still_gives_a_frame() -> None:
    found = frame(Step(torch.zeros(0, 4), None, 0), 0, 0, [NO_QUESTION], str)
    assert found["said"] == [None]
    assert found["parts"] == []
    assert found["map"]["shape"] == [1, 1]
