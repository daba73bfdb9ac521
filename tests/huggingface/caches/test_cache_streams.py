"""A compressed cache as a state: its bytes, saved, selected, restored, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from cached_models import causal, some_tokens

import mnemoscope as ms
from mnemoscope.core.errors import UserError
from mnemoscope.memories.state import State, StreamState

CACHES: dict[str, dict[str, Any]] = {
    "full": {},
    "window": {"budget": 6},
    "random": {"budget": 8, "sinks": 1},
    "h2o": {"budget": 6},
    "snapkv": {"budget": 6, "queries": 2},
    "quantised": {"bits": 4, "group": 8},
}
# Two layers, two key-value heads of width 8, keys and values of four bytes a number.
TOKEN = 2 * 2 * 8 * 2 * 4


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("full", 20 * TOKEN),
        ("window", 6 * TOKEN),
        ("random", 8 * TOKEN),
        ("h2o", 6 * (TOKEN + 2 * 2 * 4)),  # and a score a token and head
        ("snapkv", 6 * TOKEN),
    ],
)
def test_bytes_are_those_that_are_held(name: str, expected: int):
    stream = ms.stream(causal("llama"), cache=name, **CACHES[name])
    assert stream.bytes_after(20, segment=7) == expected + 8  # the count of tokens


@pytest.mark.parametrize("name", CACHES)
def test_a_state_is_saved_loaded_and_selected(name: str, tmp_path: Path):
    model, tokens = causal("qwen2"), some_tokens(3, 30)
    stream = ms.stream(model, cache=name, **CACHES[name])
    state = stream.read(tokens[:, :21], segment=4).state
    expected = stream.read(tokens[:, 21:], state).logits
    state.save(tmp_path / "state")
    loaded = State.load(tmp_path / "state")
    assert isinstance(loaded, StreamState)
    assert loaded.nbytes == state.nbytes
    assert torch.equal(stream.read(tokens[:, 21:], loaded).logits, expected)
    picked = stream.read(tokens[[2, 0], 21:], state.select([2, 0])).logits
    torch.testing.assert_close(picked, expected[[2, 0]], rtol=1e-4, atol=1e-4)
    # A state is data: reading on did not change it.
    assert torch.equal(stream.read(tokens[:, 21:], state).logits, expected)
    with pytest.raises(UserError, match="cannot start anew"):
        state.reset([1])


def test_a_state_that_does_not_fit_is_refused():
    model, tokens = causal("llama"), some_tokens(2, 12)
    stream = ms.stream(model, cache="window", budget=6)
    state = stream.read(tokens).state
    other = ms.stream(model, cache="window", budget=7)
    with pytest.raises(UserError, match="another cache"):
        other.read(tokens, state)
    with pytest.raises(UserError, match="holds 2 rows"):
        stream.read(tokens[:1], state)
    cut = StreamState(
        tuple(layer.map(lambda t: t[:, :, 1:]) for layer in state.layers), state.count, state.owner
    )
    with pytest.raises(UserError, match="does not fit"):
        stream.read(tokens, cut)
    assert state.count is not None
    apart = StreamState(state.layers, state.count + torch.tensor([0, 1]), state.owner)
    with pytest.raises(UserError, match="different numbers of tokens"):
        stream.read(tokens, apart)


@pytest.mark.parametrize(
    ("cache", "options", "said"),
    [
        ("windw", {}, "did you mean 'window'"),
        ("window", {"keep": 8}, "no option 'keep'"),
        ("window", {"budget": 4}, "leave no room"),
        ("random", {"budget": 8, "recent": 6}, "are more than budget=8"),
        ("h2o", {"budget": 8, "recent": 9}, "more than budget=8"),
        ("snapkv", {"budget": 8}, "leave no room"),
        ("snapkv", {"pool": 4}, "must be odd"),
        ("quantised", {"bits": 3}, "do not fill a byte"),
        ("quantised", {"group": 12}, "multiple of 8"),
        ("full", {"budget": 4}, "no option 'budget'"),
    ],
)
def test_mistyped_options_are_told_in_a_line(cache: str, options: dict[str, Any], said: str):
    with pytest.raises(UserError, match=said):
        ms.stream(causal("llama"), cache=cache, **options)


def test_models_that_cannot_have_a_cache_are_told():
    with pytest.raises(UserError, match="memory of its own"):
        ms.stream(ms.build("lstm", vocab=8), cache="window")
    with pytest.raises(UserError, match="stream already"):
        ms.stream(ms.stream(causal("llama")), cache="window")
    # Heads of width 12, which groups of 8 do not part.
    with pytest.raises(UserError, match="does not part values"):
        ms.stream(causal("llama", width=48), cache="quantised", group=8)
    sliding = causal("qwen2", use_sliding_window=True, sliding_window=4, max_window_layers=0)
    with pytest.raises(UserError, match="DynamicSlidingWindowLayer"):
        ms.stream(sliding, cache="h2o")
    transformers = pytest.importorskip("transformers")
    config = transformers.BloomConfig(vocab_size=40, hidden_size=16, n_layer=2, n_head=2)
    with pytest.raises(UserError, match="nearer than they are"):
        ms.stream(transformers.BloomForCausalLM(config), cache="window")


def test_half_precision_and_one_token_at_a_time():
    model, tokens = causal("gpt_neox").to(torch.bfloat16), some_tokens(2, 16)
    for name, options in CACHES.items():
        stream = ms.stream(model, cache=name, **options)
        out = stream.read(tokens, segment=1)
        assert out.logits.dtype == torch.bfloat16
        assert bool(out.logits.isfinite().all())


def test_retention_is_measured_on_compressed_caches():
    """Of an untrained model nothing is recalled; what is asserted is that all of it runs."""
    model = causal("llama")
    streams = [ms.stream(model, cache=name, **CACHES[name]) for name in ("full", "h2o")]
    options: dict[str, Any] = {
        "ages": (1, 10),
        "segment": 4, "items": (1,), "overwrites": (0,), "pairs": 2, "rest": 4, "keys": 4,
        "values": 4, "episodes": 4, "batch": 4, "resamples": 10,
    }  # fmt: skip
    found: Any = ms.lens("retention", streams, **options)
    full, evicting = found.results.values()
    assert [one.model for one in (full, evicting)] == ["llama (full)", "llama (h2o, budget=6)"]
    # Twelve tokens before the segment of the oldest question; six of them with their scores.
    assert full.by_age.bytes[-1] == 12 * TOKEN + 8
    assert evicting.by_age.bytes[-1] == 6 * (TOKEN + 2 * 2 * 4) + 8
