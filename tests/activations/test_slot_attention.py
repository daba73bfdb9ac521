"""Attention over slots: as long as all fits, it is that of the model with the whole text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")

from hf_families import build, prompt

from mnemoscope.activations.streams.blank import Blank
from mnemoscope.activations.streams.huggingface_stream import HuggingFacePageStream
from mnemoscope.activations.streams.infinite_stream import InfinitePageStream
from mnemoscope.activations.streams.slot_attention import EARLIER
from mnemoscope.huggingface.config import InfiniteOptions, TransformerXLOptions
from mnemoscope.huggingface.infinite.memory import InfiniteMemory

WINDOW, READ = 8, 37


def memory_of(**options: Any) -> InfiniteMemory:
    kind = InfiniteOptions if options.get("joint") else TransformerXLOptions
    return InfiniteMemory(build("llama"), kind.make(window=WINDOW, sinks=2, **options))


def steps(stream: Any, tokens: Any) -> list[Any]:
    found, state = [], None
    for first in range(0, len(tokens), WINDOW):
        found.append(stream.step(tokens[first : first + WINDOW], state, first, []))
        state = found[-1].state
    return found


def test_attention_over_slots_is_that_of_the_whole_text_as_long_as_all_fits() -> None:
    tokens = prompt(1, READ)[0]
    memory = memory_of(joint=True, sticky=True, basis=64)
    joint = steps(InfinitePageStream(memory), tokens)
    memory.detach()
    whole = HuggingFacePageStream(memory.base).step(tokens, None, 0, [])
    for first, step in zip(range(0, READ, WINDOW), joint, strict=True):
        rows = slice(first, first + WINDOW)
        for part, all_of_it in zip(step.parts, whole.parts, strict=True):
            seen = part.shares.shape[1]
            np.testing.assert_allclose(part.shares, all_of_it.shares[rows, :seen], atol=2e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"joint": True, "basis": 12},
        {"joint": True, "basis": 12, "sticky": True},
        {"mem_len": 12},
        {"mem_len": 12, "pooling": 4},
    ],
)
def test_shares_add_up_to_one_and_fall_on_what_is_held(options: dict[str, Any]) -> None:
    memory = memory_of(**options)
    before: set[int] = set()
    state = None
    tokens = prompt(1, READ)[0]
    for first in range(0, READ, WINDOW):
        step = InfinitePageStream(memory).step(tokens[first : first + WINDOW], state, first, [])
        for part in step.parts:
            np.testing.assert_allclose(part.shares.sum(1), 1, atol=1e-6)
            if part.layer == 0 and "pooling" not in options:
                old = set(np.flatnonzero(part.shares[:, :first].sum(0) > 0).tolist())
                assert old <= before
        panels = [one for one in step.panels if one["title"] == EARLIER and one["layer"] == 0]
        before = set(panels[0]["first"])
        state = step.state
    assert READ - READ % WINDOW - 1 in before  # the last window that was written


def test_what_is_blanked_gets_no_attention_and_the_rest_stays_where_it_is() -> None:
    memory = memory_of(joint=True, basis=64)
    stream, tokens = InfinitePageStream(memory), prompt(1, READ)[0]
    state = steps(stream, tokens[: 3 * WINDOW])[-1].state
    more = tokens[3 * WINDOW : 3 * WINDOW + 4]
    whole, _ = stream.read(more, state, tokens[: 3 * WINDOW], None)
    nothing, _ = stream.read(more, state, tokens[: 3 * WINDOW], Blank(tokens=(100, 200)))
    np.testing.assert_allclose(nothing, whole, atol=1e-5)
    fewer, _ = stream.read(more, state, tokens[: 3 * WINDOW], Blank(tokens=(2, 23)))
    assert float((fewer - whole).abs().max()) > 1e-3
