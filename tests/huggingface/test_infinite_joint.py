"""A signal that the model's own attention reads: the whole text while it fits, and a rule after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hf_families import FAMILIES, assert_rows_are_streams, build, prompt

import mnemoscope as ms
from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.infinite.pasts import exchanged, without
from mnemoscope.huggingface.infinite.slots import DECAY, SlotPlan, SlotState
from mnemoscope.memories.state import State

KINDS: dict[str, dict[str, Any]] = {
    "even": {"memory": "infinite", "joint": True, "basis": 12, "sinks": 2},
    "sticky": {"memory": "infinite", "joint": True, "basis": 12, "sinks": 2, "sticky": True},
    "some layers": {"memory": "infinite", "joint": True, "basis": 16, "sinks": 1, "layers": (1,)},
    "transformer_xl": {"memory": "transformer_xl", "mem_len": 12, "sinks": 1},
    "compressive": {"memory": "transformer_xl", "mem_len": 12, "sinks": 1, "pooling": 4},
    "both": {"memory": "infinite", "mem_len": 8, "sinks": 1, "basis": 8},
}


def attached(model: Any, kind: str) -> Any:
    return ms.attach(model, window=8, **KINDS[kind])


@pytest.mark.parametrize("family", ["llama", "gpt_neox", "qwen2"])
def test_as_long_as_all_fits_it_is_the_model_with_the_whole_text(family: str) -> None:
    model, tokens = build(family), prompt(2, 45)
    with torch.no_grad():
        whole = model(tokens).logits
        for options in ({"sticky": True}, {}):
            memory = ms.attach(model, "infinite", window=8, joint=True, basis=48, **options)
            torch.testing.assert_close(memory(tokens).logits, whole, atol=1e-4, rtol=1e-4)
            memory.detach()


@pytest.mark.parametrize(
    ("family", "kind"),
    [*(("llama", kind) for kind in KINDS), *((family, "sticky") for family in FAMILIES)],
)
def test_segments_are_one_stream_of_further_keys_and_values(
    family: str, kind: str, tmp_path: Path
) -> None:
    model, tokens = build(family), prompt(2, 45)
    with torch.no_grad():
        bare = model(tokens).logits
        memory = attached(model, kind)
        assert torch.equal(model(tokens).logits, bare)  # called by itself it is the base
        torch.testing.assert_close(memory(tokens[:, :8]).logits, bare[:, :8])
        whole = memory(tokens)
        state, found = None, []
        for number, segment in enumerate(tokens.split([1] * 11 + [3, 7, 20, 4], 1)):
            out = memory(segment, state)
            state = out.state
            if number % 5 == 4:
                state.save(tmp_path / "state")
                state = State.load(tmp_path / "state")
            found.append(out.logits)
        torch.testing.assert_close(torch.cat(found, 1), whole.logits, atol=1e-4, rtol=1e-4)
        assert state.nbytes == whole.state.nbytes == memory(tokens[:, :5]).state.nbytes
        memory.detach()
        assert torch.equal(model(tokens).logits, bare)


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_has_further_keys_and_values_of_its_own(kind: str) -> None:
    assert_rows_are_streams(attached(build("llama"), kind))


def test_the_models_own_generate_reads_the_past_and_leaves_it() -> None:
    model = build("llama")
    memory, tokens = attached(model, "sticky"), prompt(2, 40)
    with torch.no_grad():
        state = memory(tokens).state
        before = {name: tensor.clone() for name, tensor in state.tensors()}
        bare = model.generate(tokens[:, :3], max_new_tokens=6, num_beams=2)
        with memory.past(state):
            read = model.generate(tokens[:, :3], max_new_tokens=6, num_beams=2)
        assert not torch.equal(bare, read)
        assert all(torch.equal(before[name], tensor) for name, tensor in state.tensors())


def test_recent_keys_and_sinks_are_seen_at_their_distances() -> None:
    """One layer: the base that is given the sink and the last keys where they were."""
    model, tokens = build("llama", layers=1), prompt(2, 32)
    memory = ms.attach(model, "transformer_xl", window=8, mem_len=16, sinks=1)
    with torch.no_grad():
        found = memory(tokens).logits
        for last in range(24, 32):
            kept = torch.cat((tokens[:, :1], tokens[:, 8 : last + 1]), 1)
            positions = torch.tensor([0, *range(8, last + 1)]).expand_as(kept)
            seen = model(kept, position_ids=positions).logits[:, -1]
            torch.testing.assert_close(found[:, last], seen, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("keep", ["recent", "even", "attended", "pooled"])
def test_what_is_kept_is_what_the_rule_says(keep: Any) -> None:
    """Against a slow version that keeps lists."""
    generator = torch.Generator().manual_seed(0)
    plan = SlotPlan(count=14, sinks=2, keep=keep)
    state = plan.fresh(1, 1, 1, torch.zeros(1))
    kept: list[tuple[float, float, float]] = []  # time, value, mass
    for write in range(9):
        values = torch.randn(1, 1, 4, 1, generator=generator)
        state = plan.write(state, values, values)
        kept = _slowly(
            keep, kept, [(4 * write + n + 1, float(values[0, 0, n, 0]), 0.0) for n in range(4)]
        )
        found = _listed(state)
        assert len(found) == len(kept)
        for one, two in zip(found, kept, strict=True):
            assert one == pytest.approx(two, abs=1e-5)
        mass = torch.rand(1, 14, generator=generator)
        state = state.attended(mass)
        added = mass[state.times > 0].tolist()
        kept = [
            (time, value, old + more) for (time, value, old), more in zip(kept, added, strict=True)
        ]


def _listed(state: SlotState) -> list[tuple[float, float, float]]:
    rows = zip(
        state.times[0].tolist(),
        state.values[0, 0, :, 0].tolist(),
        state.masses[0].tolist(),
        strict=True,
    )
    return [row for row in rows if row[0] > 0]


def _slowly(
    keep: str, kept: list[tuple[float, float, float]], new: list[tuple[float, float, float]]
) -> list[tuple[float, float, float]]:
    kept = [(time, value, DECAY * mass) for time, value, mass in kept]
    sinks, rest = [one for one in kept if one[0] <= 2], [one for one in kept if one[0] > 2]
    room = 14 - 2 - len(new) if sinks else 14 - len(new)
    match keep:
        case "recent":
            rest = rest[-room:]
        case "attended":
            rest = sorted(sorted(rest, key=lambda one: -one[2])[:room])
        case "even" if len(rest) > room:
            n = len(rest)
            rest = [one for r, one in enumerate(rest) if (r + 1) * room // n > r * room // n]
        case "pooled" if kept:
            last = kept[-4:]
            mean = tuple(sum(numbers) / 4 for numbers in zip(*last, strict=True))
            rest = [*[one for one in rest if one not in last], mean][-room:]
    return [*sinks, *rest, *new]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"joint": True, "basis": 4}, "basis=4 must be at least window=8"),
        ({"joint": True, "mem_len": 4}, "joint needs the signal and no mem_len"),
        ({"joint": True, "gate": True}, "joint has no use for gate"),
        ({"joint": True, "density": "gibbs"}, "joint has no use for density"),
        ({"mem_len": 4, "sinks": 1}, "mem_len=4 must be at least window=8"),
        ({"mem_len": 8}, "mem_len=8 must be less than window=8, or set sinks"),
        ({"mem_len": 4, "pooling": 2}, "pooling=2 needs mem_len and sinks"),
    ],
)
def test_what_cannot_be_is_said(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        ms.attach(build("llama"), "infinite", window=8, **options)


def test_the_worth_of_what_attention_reads_keeps_the_window_before() -> None:
    """No past is a cache of one window, and a text among copies of itself has nobody else's."""
    model, tokens = build("llama"), prompt(2, 48)
    memory = attached(model, "sticky")
    worth = memory.worth(tokens, silent=True)
    assert np.isfinite(worth.own).all()
    assert np.abs(worth.own - worth.other)[:, 2:].max() > 1e-3
    same = memory.worth(tokens[[0, 0]], silent=True)
    np.testing.assert_allclose(same.own, same.other, atol=1e-5)
    memory.detach()
    cache = ms.attach(model, "transformer_xl", window=8, mem_len=8, sinks=2)
    # The first two windows are all that there was.
    np.testing.assert_allclose(
        cache.worth(tokens, silent=True).none[:, :1], worth.none[:, :1], atol=1e-4
    )
    with pytest.raises(UserError, match="joint has no weights of its own"):
        ms.attach(build("llama"), "infinite", window=8, joint=True).fit([tokens[0].tolist()])


def test_another_past_is_that_of_the_signal_too() -> None:
    """The window before is in the slots, all that is older in the signal alone."""
    memory = attached(build("llama"), "both")
    for number in range(len(memory.reading_layers)):
        torch.nn.init.normal_(memory.reader(number).longterm.out.weight)
    tokens = prompt(2, 48)
    state = memory.read(tokens[:, :32])
    mixed, empty = exchanged(state, 8), without(state, 8, sinks=1)
    signals = [[layer.signal for layer in one.layers[1:]] for one in (state, mixed, empty)]
    for own, other, none in zip(*signals, strict=True):
        assert torch.equal(other.coefficients, own.coefficients.flip(0))
        assert not bool(none.coefficients.any() or none.count.any())
    worth = memory.worth(tokens, silent=True)
    # The slots hold no more than the window before, so nothing but the signal can differ.
    assert np.abs(worth.own - worth.other)[:, 1:].max() > 1e-3
    assert np.abs(worth.own - worth.none)[:, 1:].max() > 1e-3
    same = memory.worth(tokens[[0, 0]], silent=True)
    np.testing.assert_allclose(same.own, same.other, atol=1e-5)


def test_another_way_to_attend_is_refused() -> None:
    model = build("llama", attn_implementation="eager")
    with pytest.raises(UserError, match="slots are read beside 'sdpa' only"):
        ms.attach(model, "infinite", window=8, joint=True)
