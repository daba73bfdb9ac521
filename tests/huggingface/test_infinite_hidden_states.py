"""Training on kept hidden states is training: the same losses and the same weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hf_families import FAMILIES, build, prompt, speaking

import mnemoscope as ms
from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.config import InfiniteFitting
from mnemoscope.huggingface.infinite.hidden_states import states_below
from mnemoscope.huggingface.infinite.streams import stretches

# Texts that end within a window, and within what is learnt from at once.
TEXTS = [prompt(1, length, seed=length)[0] for length in (49, 33, 60)]


def attached(family: str, **options: Any) -> Any:
    given = {"window": 8, "basis": 8, "layers": (2,)} | options
    return speaking(ms.attach(build(family), "infinite", **given))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("options", [{}, {"mem_len": 8, "sinks": 1}])
def test_kept_hidden_states_teach_what_the_hooked_model_does(
    family: str, options: dict[str, Any]
) -> None:
    found = {}
    for cache in ("on", "off"):
        memory = attached(family, **options)
        losses = memory.fit(
            [text.tolist() for text in TEXTS],
            steps=7, rows=2, lr=1e-2, tbptt=2, cache=cache, silent=True,
        )  # fmt: skip
        found[cache] = losses, dict(memory.readers.state_dict())
        assert memory.base(prompt()).logits.shape == (2, 5, 60)  # all blocks compute again
    assert found["on"][0] == pytest.approx(found["off"][0], abs=1e-5)
    for name, weight in found["on"][1].items():
        torch.testing.assert_close(weight, found["off"][1][name], atol=1e-5, rtol=1e-4)


def test_gradients_are_the_same_and_blocks_below_do_not_run() -> None:
    memory = attached("llama", mem_len=8, sinks=1)
    kept = states_below(memory, TEXTS, 3, 2, InfiniteFitting.make(cache="on", silent=True))
    assert kept is not None
    read = stretches(TEXTS, 3, 16)
    one, two = next(read), next(read)
    state = memory.read(one.tokens)
    ran: list[str] = []
    memory.blocks[0].mlp.register_forward_hook(lambda *_: ran.append("lowest"))
    grads = {}
    for name in ("kept", "hooked"):
        memory.zero_grad()
        if name == "kept":
            with kept.of(two, 16):
                loss = memory(two.tokens, state).logits.square().mean()
            assert not ran
        else:
            loss = memory(two.tokens, state).logits.square().mean()
        torch.autograd.backward(loss)
        grads[name] = [loss.detach(), *(w.grad.clone() for w in memory.readers.parameters())]
    for one_grad, other in zip(grads["kept"], grads["hooked"], strict=True):
        torch.testing.assert_close(one_grad, other, atol=1e-5, rtol=1e-4)


def test_they_are_found_again_in_their_file_and_those_of_other_texts_are_refused(
    tmp_path: Path,
) -> None:
    memory = attached("llama")
    options = InfiniteFitting.make(cache="on", cache_file=tmp_path / "hidden", silent=True)
    first = states_below(memory, TEXTS, 2, 2, options)
    again = states_below(memory, TEXTS, 3, 2, options)
    assert first is not None
    assert again is not None
    for one, two in zip(first.hidden, again.hidden, strict=True):
        assert torch.equal(one, two)
    with pytest.raises(UserError, match="of another model, memory or texts"):
        states_below(memory, TEXTS[:2], 2, 2, options)


def test_when_none_are_kept() -> None:
    memory, below = attached("llama"), 2
    few = InfiniteFitting.make(steps=1, rows=2, silent=True)
    assert states_below(memory, TEXTS, 2, below, few) is None  # each would be used less than once
    small = InfiniteFitting.make(cache_bytes=100, silent=True)
    assert states_below(memory, TEXTS, 2, below, small) is None
    on = InfiniteFitting.make(cache="on", silent=True)
    with pytest.raises(UserError, match="nothing is below it"):
        states_below(memory, TEXTS, 2, 0, on)
    memory.detach()
    carried = ms.attach(build("llama"), "infinite", window=8, basis=8, mem_len=4)
    with pytest.raises(UserError, match="set sinks"):
        states_below(carried, TEXTS, 2, below, on)
