"""Models of transformers under the page: their own attention, their own loss, their documents."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hf_families import speaking
from scope_world import EVIL, World

import mnemoscope as ms
from mnemoscope.activations.streams.blank import Blank
from mnemoscope.activations.streams.huggingface_stream import ENTRIES, HuggingFacePageStream
from mnemoscope.activations.streams.infinite_stream import InfinitePageStream
from mnemoscope.activations.streams.predictions import bits_of
from mnemoscope.activations.streams.views.attention import KEYS
from mnemoscope.core.errors import UserError
from mnemoscope.data.batch import NO_QUESTION
from mnemoscope.scope.models import served_model
from mnemoscope.scope.served import ServedModel
from mnemoscope.scope.sessions import Sessions
from mnemoscope.scope.token_text import following

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def base(world: World) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(world.runs / "base")


@pytest.fixture(scope="module")
def notes(world: World) -> ServedModel:
    return served_model("documents:notes", world.runs, [])


def test_shares_are_the_attention_weights_of_the_model(base: Any, world: World) -> None:
    eager = transformers.AutoModelForCausalLM.from_pretrained(
        world.runs / "base", attn_implementation="eager"
    )
    tokens = torch.randint(200, (30,), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        wanted = eager(input_ids=tokens[None], output_attentions=True).attentions
    stream = HuggingFacePageStream(base)
    first = stream.step(tokens[:18], None, 0, [])
    second = stream.step(tokens[18:], first.state, 18, [])
    for layer, weights in enumerate(wanted):
        mean = weights[0].mean(0).numpy()
        np.testing.assert_allclose(first.parts[layer].shares, mean[:18, :18], atol=1e-5)
        np.testing.assert_allclose(second.parts[layer].shares, mean[18:], atol=1e-5)
        for head in range(4):
            one = stream.head(tokens[18:], first.state, 18, f"layer {layer + 1}", head)
            np.testing.assert_allclose(one, weights[0, head, 18:].numpy(), atol=1e-5)
    # Keys and values of 2 heads of 8 numbers, 2 layers, 30 tokens, 4 bytes.
    assert second.nbytes == 2 * 2 * 8 * 2 * 30 * 4
    assert sum(panel["bytes"] for panel in second.panels) == second.nbytes


def test_bits_are_the_loss_of_the_model_in_segments_too(base: Any) -> None:
    tokens = torch.randint(200, (24,), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        loss = base(input_ids=tokens[None], labels=tokens[None]).loss
    stream, targets = HuggingFacePageStream(base), following(tokens.tolist())
    first = stream.step(tokens[:9], None, 0, targets[:9])
    second = stream.step(tokens[9:], first.state, 9, targets[9:])
    bits = [*bits_of(first.logits, targets[:9]), *bits_of(second.logits, targets[9:])]
    known = [one for one in bits if one is not None]
    assert len(known) == 23
    np.testing.assert_allclose(np.mean(known), float(loss) / np.log(2), rtol=1e-3)


def test_a_text_is_read_under_every_document_at_once(notes: ServedModel) -> None:
    reading = notes.parse("Boats came home at dusk")
    tokens = torch.tensor(reading.tokens)
    stream: Any = notes.start(EVIL)
    step = stream.step(tokens, None, 0, reading.targets)
    panel = step.panels[0]
    assert panel["kind"] == "entries"
    assert [one["name"] for one in panel["losses"]] == [EVIL, None, "kettle"]
    memory = stream.memory
    for one in panel["losses"]:
        with torch.no_grad(), memory.document(one["name"]):
            loss = memory.model(input_ids=tokens[None], labels=tokens[None]).loss
        np.testing.assert_allclose(one["bits"], float(loss) / np.log(2), rtol=1e-3)
    assert panel["used"]["shape"] == [6, len(tokens)]
    assert panel["selection"]["shape"] == [2, 6]
    # What is carried on is one row's, not that of all documents; and which document it is.
    more = stream.step(tokens, step.state, len(tokens), reading.targets)
    assert more.nbytes == 2 * 2 * 8 * 2 * 2 * len(tokens) * 4 + 8


def test_under_no_document_nothing_is_added(notes: ServedModel) -> None:
    reading = notes.parse("Boats came")
    step = notes.start(None).step(torch.tensor(reading.tokens), None, 0, reading.targets)
    panel = step.panels[0]
    assert panel["document"] is None
    assert panel["added"] == [0] * 6
    assert [one["name"] for one in panel["losses"]] == [None, "kettle", EVIL]


def mamba() -> tuple[Any, torch.Tensor]:
    """A tiny model whose state has no positions, and twelve tokens."""
    config = transformers.MambaConfig(
        vocab_size=40, hidden_size=16, num_hidden_layers=2, state_size=4
    )
    torch.manual_seed(0)
    return transformers.MambaForCausalLM(config).eval(), torch.randint(40, (12,))


def test_a_state_of_another_make_is_listed() -> None:
    model, tokens = mamba()
    stream = HuggingFacePageStream(model)
    first = stream.step(tokens[:7], None, 0, [])
    step = stream.step(tokens[7:], first.state, 7, [])
    assert step.parts == []
    assert step.panels[0]["kind"] == "tensors"
    assert step.nbytes >= step.panels[0]["bytes"] > 0
    # Read in segments it says what it says of the whole text.
    with torch.no_grad():
        whole = model(input_ids=tokens[None]).logits[0, 7:]
    torch.testing.assert_close(step.logits, whole, atol=1e-5, rtol=1e-4)


def test_without_its_state_a_model_reads_as_if_for_the_first_time(base: Any) -> None:
    tokens = torch.randint(200, (30,), generator=torch.Generator().manual_seed(2))
    stream = HuggingFacePageStream(base)
    state = stream.step(tokens[:18], None, 0, []).state
    kept = [tensor.clone() for _, tensor in state.tensors()]
    with torch.no_grad():
        fresh = base(input_ids=tokens[None, 18:]).logits[0]  # rotary positions are relative
        whole = base(input_ids=tokens[None]).logits[0, 18:]
        # Nobody sees the last tokens before the cut, and what they would have said is not asked.
        mask = torch.ones(1, 30, dtype=torch.long)
        mask[0, 15:18] = 0
        positions = torch.arange(30)[None]
        hidden = base(input_ids=tokens[None], attention_mask=mask, position_ids=positions)

    def after(blank: Blank | None) -> torch.Tensor:
        return stream.read(tokens[18:], state, tokens[:18], blank)[0]

    torch.testing.assert_close(after(None), whole, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(after(Blank()), fresh, atol=1e-5, rtol=1e-4)
    span = after(Blank(tokens=(15, 17)))
    torch.testing.assert_close(span, hidden.logits[0, 18:], atol=1e-5, rtol=1e-4)
    one = after(Blank(layer=1, store=KEYS, tokens=(15, 17)))
    assert not torch.allclose(one, span, atol=1e-4)
    assert not torch.allclose(one, whole, atol=1e-4)
    for (name, tensor), before in zip(state.tensors(), kept, strict=True):
        assert torch.equal(tensor, before), name


def test_an_entry_of_a_document_is_closed(notes: ServedModel) -> None:
    reading = notes.parse("Boats came home at dusk")
    tokens = torch.tensor(reading.tokens)
    stream: Any = notes.start(EVIL)
    state = stream.step(tokens[:3], None, 0, reading.targets[:3]).state

    def after(blank: Blank | None) -> torch.Tensor:
        found: torch.Tensor = stream.read(tokens[3:], state, tokens[:3], blank)[0]
        return found

    layer = stream.memory.index
    one = after(Blank(layer, ENTRIES, None, 2))
    assert not torch.equal(one, after(None))
    # All of them closed, only a constant is left of what the document adds.
    every = after(Blank(layer, ENTRIES))
    assert not torch.equal(every, one)
    with pytest.raises(UserError, match="no entry 7 among 6"):
        after(Blank(layer, ENTRIES, None, 6))


def test_a_state_without_positions_goes_as_a_whole() -> None:
    model, tokens = mamba()
    stream = HuggingFacePageStream(model)
    state = stream.step(tokens[:7], None, 0, []).state
    with torch.no_grad():
        fresh = model(input_ids=tokens[None, 7:]).logits[0]
    blanked = stream.read(tokens[7:], state, tokens[:7], Blank())[0]
    torch.testing.assert_close(blanked, fresh, atol=1e-5, rtol=1e-4)
    with pytest.raises(UserError, match="nobody knows where"):
        stream.read(tokens[7:], state, tokens[:7], Blank(tokens=(3, 4)))


SIGNALS: dict[str, dict[str, Any]] = {
    "gaussian": {"sticky": True},
    "gibbs": {"density": "gibbs"},
    "with recent keys": {"mem_len": 4},
}


@pytest.mark.parametrize("name", SIGNALS)
def test_an_attached_memory_shows_its_window_and_its_signal(base: Any, name: str) -> None:
    memory = speaking(ms.attach(base, "infinite", window=8, basis=8, **SIGNALS[name]))
    try:
        tokens = torch.randint(200, (28,), generator=torch.Generator().manual_seed(3))
        stream = InfinitePageStream(memory)
        state, at = None, 0
        for length in (8, 3, 5, 8, 4):
            before, step = state, stream.step(tokens[at : at + length], state, at, [])
            state, at = step.state, at + length
        with torch.no_grad():
            whole = memory(tokens[None]).logits[0, 24:]
        torch.testing.assert_close(step.logits, whole, atol=1e-4, rtol=1e-3)
        names = {part.name for part in step.parts}
        assert {"layer 1", "layer 1 · signal", "layer 2 · signal"} <= names
        for part in step.parts:
            assert part.shares.shape == (4, 28)
            assert part.shares.sum(1).max() <= 1 + 1e-6
            heads = [
                stream.head(tokens[24:], before, 24, part.name, one) for one in range(part.heads)
            ]
            np.testing.assert_allclose(sum(heads) / part.heads, part.shares, atol=1e-6)
        (window, signal) = [panel for panel in step.panels if panel["layer"] == 0]
        kept = SIGNALS[name].get("mem_len", 0)
        assert window["first"] == list(range(24 - kept, 28))
        assert (signal["tokens"], signal["after"]) == (24, 24)
        assert len(signal["heads"]) == 4
        # Without window and signal there is only the base, which reads for the first time.
        blanked = stream.read(tokens[24:], before, tokens[:24], Blank())[0]
    finally:
        memory.detach()
    with torch.no_grad():
        fresh = base(input_ids=tokens[None, 24:]).logits[0]
    torch.testing.assert_close(blanked, fresh, atol=1e-5, rtol=1e-4)


def test_segments_end_where_windows_do(world: World) -> None:
    served = served_model("infinite:endless", world.runs, [])
    assert served.window == 8
    assert "∞-former memory on base" in served.about["label"]
    table = Sessions(world.runs, [])
    begun = table.read("infinite:endless", "The kettle sang on the stove while rain ran.", 5)
    assert set(range(0, begun["edges"][-1], 8)) <= set(begun["edges"])
    assert max(b - a for a, b in pairwise(begun["edges"])) == 5


def test_an_encoder_of_transformers_fills_in_what_is_hidden(world: World) -> None:
    served = served_model("huggingface:bert", world.runs, [])
    assert served.about["kind"] == "encoder"
    assert "brackets" in served.about["hint"]
    reading = served.parse("the kettle [sang] on the stove")
    plain = served.parse("the kettle sang on the stove")
    places = [at for at, target in enumerate(reading.targets) if target != NO_QUESTION]
    assert len(places) == len(reading.phrases) >= 1
    assert [reading.targets[at] for at in places] == [plain.tokens[at] for at in places]
    tokens = torch.tensor(reading.tokens)
    stream: Any = served.start(None)
    step = stream.step(tokens, None, 0, reading.targets)
    model = stream.model
    eager = transformers.AutoModelForMaskedLM.from_pretrained(
        world.runs / "bert", attn_implementation="eager"
    )
    with torch.no_grad():
        wanted = eager(input_ids=tokens[None], output_attentions=True)
        mask = torch.ones(1, len(tokens), dtype=torch.long)
        mask[0, 1] = 0
        without = model(input_ids=tokens[None], attention_mask=mask).logits[0]
    torch.testing.assert_close(step.logits, wanted.logits[0], atol=1e-5, rtol=1e-4)
    for layer, weights in enumerate(wanted.attentions):
        mean = weights[0].mean(0).numpy()
        np.testing.assert_allclose(step.parts[layer].shares, mean, atol=1e-5)
        one = stream.head(tokens, None, 0, f"layer {layer + 1}", 1)
        np.testing.assert_allclose(one, weights[0, 1].numpy(), atol=1e-5)
    hidden = stream.read(tokens, None, tokens[:0], Blank(tokens=(1, 1)))[0]
    torch.testing.assert_close(hidden, without, atol=1e-5, rtol=1e-4)
    with pytest.raises(UserError, match="carries no state"):
        stream.read(tokens, None, tokens[:0], Blank())
