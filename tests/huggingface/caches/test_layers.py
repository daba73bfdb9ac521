"""Evicting caches against full attention under a mask of what they hold, written out plainly."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
import torch
from cached_models import FAMILIES, Policy, causal, masked_reading, some_tokens
from torch import Tensor

from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.caches.config import Random, Window, cache_options
from mnemoscope.huggingface.caches.evicting import RandomLayer, WindowLayer
from mnemoscope.huggingface.caches.kv_cache import compressed_cache, make_cache
from mnemoscope.open import open_stream

# Longer and shorter than what is held, single tokens too.
SEGMENTS = [5, 1, 9, 3, 1, 2, 12, 1]
EVICTING: dict[str, dict[str, Any]] = {
    "window": {"budget": 7, "sinks": 2},
    "random": {"budget": 8, "sinks": 1, "recent": 3},
    "h2o": {"budget": 7, "recent": 3},
    "snapkv": {"budget": 8, "queries": 3, "pool": 3},
}


def window(layer: int, row: int, head: int, got: Tensor, now: list[int], read: int) -> list[int]:
    return [p for p in now if p < 2 or p >= read - 5]


def random(layer: int, row: int, head: int, got: Tensor, now: list[int], read: int) -> list[int]:
    """The layer itself, given positions for keys."""
    alone = RandomLayer(Random.make(**EVICTING["random"]), layer)
    begin = 0
    for length in SEGMENTS:
        if begin < read:
            new = torch.arange(begin, begin + length).float().view(1, 1, -1, 1)
            heads = new.expand(1, head + 1, -1, 1)
            alone.update(heads, heads)
        begin += length
    found: list[int] = alone.held["keys"][0, head, :, 0].long().tolist()
    return found


def h2o() -> Policy:
    scores: dict[Any, float] = defaultdict(float)

    def policy(
        layer: int, row: int, head: int, got: Tensor, now: list[int], read: int
    ) -> list[int]:
        for position in now:
            scores[layer, row, head, position] += float(got[:, position].sum())
        if len(now) <= 7:
            return now
        older, last = now[:-3], now[-3:]
        older.sort(key=lambda position: -scores[layer, row, head, position])
        return sorted(older[:4]) + last

    return policy


def snapkv(layer: int, row: int, head: int, got: Tensor, now: list[int], read: int) -> list[int]:
    if len(now) <= 8:
        return now
    means = [float(got[-3:, position].mean()) for position in now]
    pooled = {
        position: sum(means[max(0, at - 1) : at + 2]) / len(means[max(0, at - 1) : at + 2])
        for at, position in enumerate(now)
    }
    older = sorted(now[:-3], key=lambda position: -pooled[position])
    return sorted(older[:5]) + now[-3:]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", EVICTING)
def test_an_evicting_cache_is_full_attention_to_what_it_holds(family: str, name: str):
    model = causal(family)
    segments = list(torch.split(some_tokens(2, sum(SEGMENTS)), SEGMENTS, 1))
    policies: dict[str, Policy] = {
        "window": window, "random": random, "h2o": h2o(), "snapkv": snapkv,
    }  # fmt: skip
    expected = masked_reading(model, segments, policies[name])
    stream = open_stream(model, cache=name, **EVICTING[name])
    state = None
    for tokens, logits in zip(segments, expected, strict=True):
        out = stream.read(tokens, state)
        state = out.state
        torch.testing.assert_close(out.logits, logits, rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("name", EVICTING)
def test_a_cache_with_room_for_all_is_the_full_one(name: str):
    model, tokens = causal("llama"), some_tokens(2, 20)
    plain, full = open_stream(model), open_stream(model, cache="full")
    options: dict[str, Any] = {"queries": 2} if name == "snapkv" else {}
    roomy = open_stream(model, cache=name, budget=32, **options)
    expected = plain.read(tokens, segment=6)
    assert torch.equal(full.read(tokens, segment=6).logits, expected.logits)
    assert torch.equal(roomy.read(tokens, segment=6).logits, expected.logits)


def test_positions_go_on_after_tokens_were_let_go():
    """A cache that counts what it holds would give the next token the position of an older one."""
    layer = WindowLayer(Window(budget=4, sinks=1))
    keys = torch.arange(9.0).view(1, 1, 9, 1)
    layer.update(keys, keys)
    assert layer.held["keys"].flatten().tolist() == [0, 6, 7, 8]
    assert layer.get_seq_length() == 9
    assert layer.get_mask_sizes(3) == (7, 5)


def test_random_eviction_holds_every_older_token_equally_often():
    """With room for 6 of the 22 between the ends, and whatever the segments were."""
    drawn = torch.zeros(30)
    for seed in range(400):
        layer = RandomLayer(Random(budget=14, sinks=2, recent=6, seed=seed), 0)
        for part in torch.arange(30.0).view(1, 1, 30, 1).split((11, 1, 4, 7, 7), 2):
            layer.update(part.expand(1, 4, -1, 1), part.expand(1, 4, -1, 1))
        positions = layer.held["keys"].long().flatten()
        drawn += torch.bincount(positions, minlength=30)
    share = drawn / 1600
    assert bool((share[:2] == 1).all() & (share[24:] == 1).all())
    # Five standard deviations of a share of 6/22 among 1600.
    assert bool(((share[2:24] - 6 / 22).abs() < 5 * (0.27 * 0.73 / 1600) ** 0.5).all())


@pytest.mark.parametrize(
    ("name", "options"), [*EVICTING.items(), ("quantised", {"bits": 8, "group": 8}), ("full", {})]
)
def test_generate_and_beams_go_with_every_cache(name: str, options: dict[str, Any]):
    model, prompt = causal("llama"), some_tokens(2, 11)
    chosen = {"do_sample": False, "max_new_tokens": 6, "attention_mask": torch.ones_like(prompt)}
    with compressed_cache(model, name, **options) as cache:
        said = model.generate(prompt, past_key_values=cache, **chosen)
    # The same, token by token through the stream.
    out = open_stream(model, cache=name, **options).read(prompt)
    stream, state, logits = open_stream(model, cache=name, **options), out.state, out.logits
    for at in range(6):
        token = logits[:, -1:].argmax(-1)
        assert torch.equal(token[:, 0], said[:, 11 + at])
        out = stream.read(token, state)
        state, logits = out.state, out.logits
    with compressed_cache(model, name, **options) as cache:
        beams = model.generate(prompt, past_key_values=cache, num_beams=3, **chosen)
    assert beams.shape == (2, 17)


def test_rows_do_not_mix():
    model, tokens = causal("llama"), some_tokens(3, 24)
    for name, options in EVICTING.items():
        stream = open_stream(model, cache=name, **options)
        together = stream.read(tokens, segment=5)
        alone = stream.read(tokens[1:2], segment=5)
        torch.testing.assert_close(together.logits[1:2], alone.logits, rtol=1e-4, atol=1e-4)


def test_padding_and_hidden_attention_are_refused():
    model, tokens = causal("llama"), some_tokens(2, 9)
    mask = torch.ones_like(tokens)
    mask[0, :3] = 0
    with (
        pytest.raises(UserError, match="different lengths"),
        compressed_cache(model, "window") as cache,
    ):
        model(input_ids=tokens, attention_mask=mask, past_key_values=cache)
    cache = make_cache(model, cache_options("h2o", budget=4))
    model(input_ids=tokens, past_key_values=cache)
    with pytest.raises(UserError, match="does not show its attention"):
        model(input_ids=tokens, past_key_values=cache)
    with pytest.raises(UserError, match="cannot take tokens back"):
        cache.crop(-1)
