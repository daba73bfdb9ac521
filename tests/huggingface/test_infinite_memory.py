"""A long-term memory on five families: the same in any segments, and nothing when empty."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hf_families import FAMILIES, WORDS, assert_rows_are_streams, build, prompt, speaking
from hf_families import LONG_TERM as OPTIONS

import mnemoscope as ms
from mnemoscope.activations.attention_inputs import capture_attention_inputs
from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.blocks import find_attention, find_blocks
from mnemoscope.huggingface.config import InfiniteOptions
from mnemoscope.huggingface.infinite.memory import InfiniteMemory
from mnemoscope.memories.compressive.config import Compressing
from mnemoscope.memories.infinite.config import Infinite
from mnemoscope.memories.state import read_tensors, write_tensors


@torch.no_grad()
def read(memory: InfiniteMemory, tokens: torch.Tensor, lengths: list[int]) -> Any:
    state, logits = None, []
    for segment in tokens.split(lengths, 1):
        out = memory(segment, state)
        state = out.state
        logits.append(out.logits)
    return torch.cat(logits, 1), state


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("cached", [0, 3])
def test_segments_of_any_length_are_one_stream(family: str, cached: int) -> None:
    memory = speaking(ms.attach(build(family), "infinite", mem_len=cached, **OPTIONS))
    tokens = prompt(2, 29)
    whole, end = read(memory, tokens, [29])
    for lengths in ([8, 8, 8, 5], [1] * 29, [11, 2, 16]):
        parts, state = read(memory, tokens, lengths)
        torch.testing.assert_close(parts, whole, atol=1e-4, rtol=1e-4)
        assert state.nbytes == end.nbytes
    assert int(end.count[0]) == 29
    assert end.layers[1].signal.count.tolist() == [3, 3]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("options", [{"mem_len": 3}, {"sticky": True}])
def test_every_row_is_a_stream_of_its_own(family: str, options: dict[str, Any]) -> None:
    memory = speaking(ms.attach(build(family), "infinite", **options, **OPTIONS))
    assert_rows_are_streams(memory)


def test_padding_changes_no_gradient() -> None:
    memory = speaking(ms.attach(build("llama"), "infinite", mem_len=3, gate=True, **OPTIONS))
    tokens = prompt(2, 30)
    mask = torch.ones(2, 30, dtype=torch.bool)
    mask[1, :11] = False
    weights = list(memory.readers.parameters())
    padded = memory(tokens, mask=mask).logits[mask].square().sum()
    alone = memory(tokens[:1]).logits.square().sum() + memory(tokens[1:, 11:]).logits.square().sum()
    torch.testing.assert_close(padded, alone)
    for one, two in zip(
        torch.autograd.grad(padded, weights), torch.autograd.grad(alone, weights), strict=True
    ):
        torch.testing.assert_close(one, two, atol=1e-2, rtol=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_without_a_past_it_is_the_base(family: str) -> None:
    model = build(family)
    tokens = prompt(2, 20)
    with torch.no_grad():
        base = model(tokens).logits
        memory = speaking(ms.attach(model, "infinite", **OPTIONS))
        torch.testing.assert_close(memory(tokens[:, :8]).logits, base[:, :8])
        assert torch.equal(model(tokens).logits, base)
        state = memory(tokens).state
        with memory.past(state):
            assert float((model(tokens).logits - base).abs().max()) > 1e-3
        assert torch.equal(model(tokens).logits, base)
        memory.detach()
        assert torch.equal(model(tokens).logits, base)
    with pytest.raises(UserError, match="detached"):
        memory(tokens)


@pytest.mark.parametrize("family", ["llama", "gpt_neox"])
def test_keys_carried_over_are_those_of_transformer_xl(family: str) -> None:
    """With rotary positions a window sees exactly the last keys; one window back is the base."""
    model = build(family, layers=1)
    memory = ms.attach(model, "transformer_xl", window=8, mem_len=4)
    tokens = prompt(2, 16)
    with torch.no_grad():
        found = memory(tokens).logits
        for last in range(8, 16):
            # One layer: a token of the second window sees the four carried and its own window.
            seen = model(tokens[:, 4 : last + 1]).logits[:, -1]
            torch.testing.assert_close(found[:, last], seen, atol=1e-4, rtol=1e-4)


def test_learned_positions_read_carried_tokens_again() -> None:
    model = build("gpt2")
    memory = ms.attach(model, "transformer_xl", window=8, mem_len=4)
    tokens = prompt(1, 16)
    with torch.no_grad():
        found = memory(tokens).logits[:, 8:]
        expected = model(tokens[:, 4:]).logits[:, 4:]
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_the_signal_is_what_the_layer_was_given() -> None:
    model = build("llama")
    memory = ms.attach(model, "infinite", layers=(1,), **OPTIONS)
    tokens, seen = prompt(2, 8), []
    hook = model.model.layers[1].input_layernorm.register_forward_hook(
        lambda module, given, output: seen.append(output)
    )
    with torch.no_grad():
        state = memory(tokens).state
    hook.remove()
    reader = memory.readers[0].longterm
    expected = reader.write(reader.fresh(2), seen[0])
    torch.testing.assert_close(state.layers[2].signal.coefficients, expected.coefficients)
    assert state.layers[1].signal is None


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("heads", [None, 2])
def test_queries_start_as_those_of_the_layer(family: str, heads: int | None) -> None:
    """With their biases, and before rotary positions are applied."""
    model = build(family)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("bias"):
                weight.normal_()
    memory = ms.attach(model, "infinite", heads=heads, **OPTIONS)
    attention: Any = find_attention(find_blocks(model)[0])
    x = torch.randn(5, 32)
    if hasattr(attention, "q_proj"):
        expected = attention.q_proj(x)
    elif hasattr(attention, "c_attn"):
        expected = attention.c_attn(x)[:, :32]
    else:
        expected = attention.query_key_value(x).view(5, 4, 24)[:, :, :8].reshape(5, 32)
    reader: Any = memory.reader(0)
    torch.testing.assert_close(reader.query(x), expected)
    biased = {"gpt2", "gpt_neox", "qwen2", "opt"}
    assert (reader.query.bias is not None) == (family in biased)


def test_queries_are_those_that_attention_then_rotates() -> None:
    """At the first position nothing is rotated: there they are those that keys are compared to."""
    model = build("qwen2")
    torch.nn.init.normal_(model.model.layers[0].self_attn.q_proj.bias)
    memory = ms.attach(model, "infinite", layers=(0,), **OPTIONS)
    seen: list[Any] = []
    with torch.no_grad(), capture_attention_inputs(model, seen.append):
        hidden = model(prompt(2, 3), output_hidden_states=True).hidden_states[0]
    queries = next(one.queries for one in seen if one.layer == 0)
    reader: Any = memory.reader(0)
    with torch.no_grad():
        given = model.model.layers[0].input_layernorm(hidden)
        mine = reader.query(given).view(2, 3, 4, 8).transpose(1, 2)
    torch.testing.assert_close(mine[:, :, 0], queries[:, :, 0])
    assert float((mine - queries)[:, :, 1:].abs().max()) > 0.1


def test_every_option_of_a_signal_can_be_given() -> None:
    model = build("llama")
    names = set(InfiniteOptions.model_fields)
    assert names >= {"spread", "widths", "penalty", "samples", "floor", "bins", "kl", "kl_width"}
    # Whatever an ∞-former can be told of its signal, and nothing of the model around it.
    around = {*Compressing.model_fields, "chunk"} - {"layers", "heads", "mem_len"}
    assert names >= set(Infinite.model_fields) - around
    assert not names & around
    options: dict[str, Any] = {"spread": 0.8, "penalty": 0.2, "samples": 5, "sticky": True}
    options |= {"bins": 7, "floor": 1e-3, "gate": True, "density": "sparse", "fit": "count"}
    memory = ms.attach(model, "infinite", **options, **OPTIONS)
    chosen = memory.reader(0).longterm.config
    assert {name: getattr(chosen, name) for name in options} == options
    memory.detach()
    for name, value, message in (
        ("penalty", -1, "greater than 0"),
        ("vocab", 5, "no option 'vocab'"),
        ("bins", 5, "set sticky as well"),
        ("samples", 10**13, "needs about"),
    ):
        with pytest.raises(UserError, match=message):
            ms.attach(model, "infinite", **{name: value}, sticky=name == "samples", **OPTIONS)


def test_states_and_memories_that_know_fewer_options_go_on(tmp_path: Path) -> None:
    """As version 0.1 wrote them: queries had no bias, signals were fitted by count."""
    model = build("gpt2")
    memory = speaking(ms.attach(model, "infinite", fit="count", **OPTIONS))
    reader: Any
    for reader in memory.readers:
        torch.nn.init.zeros_(reader.query.bias)
    with torch.no_grad():
        out = memory(prompt(1, 20))
        more = memory(prompt(1, 5), out.state).logits
    shape, now = json.loads(out.state.owner)
    before = "layers window mem_len signal heads basis contraction sticky density gate"
    old = {name: now[name] for name in before.split()}
    state = dataclasses.replace(out.state, owner=json.dumps([shape, old]))
    memory.save(tmp_path)
    memory.detach()
    tensors, _ = read_tensors(tmp_path / "endless.safetensors")
    said = json.loads((tmp_path / "infinite_config.json").read_text())
    about = {"kind": "infinite", "options": old | {"seed": 0}}
    about |= {"base": said["base_fingerprint"], "model": ""}
    kept = {name: one for name, one in tensors.items() if not name.endswith("query.bias")}
    assert len(kept) < len(tensors)
    write_tensors(tmp_path / "endless.safetensors", kept, {"endless": json.dumps(about)})
    again = InfiniteMemory.load(tmp_path, model)
    with torch.no_grad():
        assert torch.equal(again(prompt(1, 5), state).logits, more)
    for owner in (None, "", "[]", "3", json.dumps([shape, 3]), json.dumps([shape, {"basis": 9}])):
        with pytest.raises(UserError, match="not from this memory"):
            again(prompt(1, 5), dataclasses.replace(state, owner=owner))


def test_state_goes_through_generation_and_files(tmp_path: Path) -> None:
    memory: Any = speaking(ms.attach(build("llama"), "infinite", **OPTIONS))
    tokens = prompt(2, 20)
    said = ms.generate(memory, tokens, 15, temperature=0)
    with torch.no_grad():
        again = memory(torch.cat((tokens, said.tokens), 1)).logits[:, 19:-1].argmax(-1)
    assert torch.equal(again, said.tokens)
    said.state.save(tmp_path / "state")
    state: Any = ms.State.load(tmp_path / "state")
    more = ms.generate(memory, said.tokens[:, -1:], 5, state=state, temperature=0)
    direct = ms.generate(memory, said.tokens[:, -1:], 5, state=said.state, temperature=0)
    assert torch.equal(more.tokens, direct.tokens)


def test_beams_of_the_base_read_their_rows_past() -> None:
    model = build("llama")
    memory = speaking(ms.attach(model, "infinite", **OPTIONS))
    with torch.no_grad():
        state = memory(prompt(2, 16, seed=5)).state
    options = {"max_new_tokens": 5, "num_beams": 3, "do_sample": False, "eos_token_id": None}
    options |= {"pad_token_id": 0}
    tokens = prompt(2, 4)
    with memory.past(state):
        both = model.generate(tokens, **options)
        slow = model.generate(tokens, use_cache=False, **options)
    assert torch.equal(both, slow)
    with memory.past(state.select([1])):
        assert torch.equal(model.generate(tokens[1:], **options), both[1:])


def test_a_saved_memory_is_the_same_when_it_is_loaded(tmp_path: Path) -> None:
    model = build("opt")
    memory = speaking(ms.attach(model, "infinite", layers=(-1,), **OPTIONS))
    with torch.no_grad():
        expected = memory(prompt(1, 20)).logits
    memory.save(tmp_path)
    memory.detach()
    again = InfiniteMemory.load(tmp_path, model)
    with torch.no_grad():
        assert torch.equal(again(prompt(1, 20)).logits, expected)
    with pytest.raises(UserError, match="another base"):
        InfiniteMemory.load(tmp_path, build("gpt2"))


def test_a_bfloat16_base_with_sticky_memory() -> None:
    memory = speaking(ms.attach(build("qwen2").bfloat16(), "infinite", sticky=True, **OPTIONS))
    with torch.no_grad():
        out = memory(prompt(2, 20))
    assert out.logits.dtype == torch.bfloat16
    assert out.state.layers[1].signal.coefficients.dtype == torch.float32
    assert bool((out.state.layers[1].signal.masses.sum(1) > 0).all())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 200}, "has 128"),
        ({"layers": (7,)}, "layer 7 does not exist"),
        ({"signal": False}, "no memory"),
        ({"mem_len": 300}, "less than window"),
        ({"heads": 5, "window": 8}, "not a multiple"),
        ({"windw": 8}, "did you mean 'window'"),
    ],
)
def test_options_that_no_long_term_memory_can_have(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ms.attach(build("llama"), "infinite", **options)


def test_calls_that_no_long_term_memory_answers() -> None:
    model = build("llama")
    memory = ms.attach(model, "infinite", **OPTIONS)
    with pytest.raises(UserError, match="already"):
        ms.attach(model, "infinite", **OPTIONS)
    with pytest.raises(UserError, match="no tokens"):
        memory(prompt(2, 4)[:, :0])
    with pytest.raises(UserError, match="whole numbers"):
        memory(torch.zeros(2, 3))
    state = memory(prompt(2, 4)).state
    with pytest.raises(UserError, match="2 rows"):
        memory(prompt(3, 4), state)
    with pytest.raises(UserError, match="mask must be boolean"):
        memory(prompt(2, 4), state, torch.ones(2, 4))
    with pytest.raises(UserError, match="no tokens"):
        memory(prompt(2, 4), state, torch.zeros(2, 4, dtype=torch.bool))
    with pytest.raises(UserError, match="not from this memory"):
        memory(prompt(2, 4), ms.build("gru", vocab=WORDS)(prompt(2, 4)).state)
    with pytest.raises(UserError, match="no weights of its own"):
        ms.attach(build("gpt2"), "transformer_xl", window=8, mem_len=2).fit(prompt(2, 40), steps=1)
    with pytest.raises(UserError, match="too short"):
        memory.fit(prompt(2, 4), steps=1)
    with pytest.raises(UserError, match="two windows"):
        memory.worth(prompt(2, 9))
