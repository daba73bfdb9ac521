"""An attached long-term memory learns, and its worth has its controls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hf_families import WORDS, build, prompt

import mnemoscope as ms
from mnemoscope.huggingface.infinite.fitting import lanes
from mnemoscope.huggingface.infinite.memory import InfiniteMemory

OPTIONS: dict[str, Any] = {"window": 8, "basis": 8}


def speaking(memory: InfiniteMemory) -> InfiniteMemory:
    """Let a memory that has learnt nothing say something."""
    torch.manual_seed(3)
    reader: Any
    for reader in memory.readers:
        torch.nn.init.normal_(reader.longterm.out.weight, std=0.3)
    return memory


def test_only_the_memory_learns_or_all() -> None:
    # Every stream repeats one symbol of its own: only the past tells a window's first tokens which.
    generator = torch.Generator().manual_seed(0)
    streams = torch.randint(3, WORDS, (8, 8), generator=generator).repeat(1, 24)
    for learn, horizon in (("memory", 2), ("memory", 1), ("all", 2)):
        model = build("gpt_neox", layers=1)
        before = {name: weight.clone() for name, weight in model.state_dict().items()}
        memory = ms.attach(model, "infinite", gate=horizon > 1, **OPTIONS)
        losses = memory.fit(streams, steps=12, learn=learn, tbptt=horizon, lr=1e-2)
        assert losses[-1] < losses[0]
        same = all(torch.equal(before[name], w) for name, w in model.state_dict().items())
        assert same is (learn == "memory")
        assert all(weight.requires_grad for weight in model.parameters())


def test_the_worth_of_a_past_has_its_controls() -> None:
    memory = ms.attach(build("gpt2"), "infinite", **OPTIONS)
    streams = lanes(torch.randint(3, WORDS, (101,)), 3)
    worth = memory.worth(streams)
    assert worth.own.shape == worth.none.shape == worth.other.shape == (3, 3, 7)
    # What has learnt nothing says nothing, whoever's past it is.
    np.testing.assert_allclose(worth.own, worth.none, atol=1e-5)
    np.testing.assert_allclose(worth.own, worth.other, atol=1e-5)
    assert "gain over another's: " in str(worth)
    alone = memory.worth(streams[:1])
    np.testing.assert_allclose(alone.own, worth.own[:1], atol=1e-5)
    assert "another's nan" in str(alone)


def test_texts_of_any_length_are_read_to_their_ends() -> None:
    memory = speaking(ms.attach(build("llama"), "infinite", **OPTIONS))
    texts = [prompt(1, length, seed=length)[0].tolist() for length in (17, 45, 30)]
    worth = memory.worth(texts)
    read = np.isfinite(worth.own[..., 0])
    assert read.sum(1).tolist() == [1, 4, 2]
    # Where one text is left there is no other.
    assert np.isfinite(worth.other[..., 0]).sum(1).tolist() == [1, 2, 2]
    for row, text in enumerate(texts):
        alone = memory.worth([text])
        np.testing.assert_allclose(
            alone.own[0], worth.own[row, : alone.own.shape[1]], atol=1e-4, rtol=1e-4
        )
    # The mean of what was measured, and an interval around it.
    gain, low, high = worth.gain()
    assert low < gain < high
    assert gain == pytest.approx(float(np.nanmean(worth.none - worth.own)))
    assert worth.by_position()["own"].shape == (7,)
