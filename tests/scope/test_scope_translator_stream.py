"""Translators and encoders of ours under the page: their own attention, words taken away."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scope_world import World

from mnemoscope.activations.capture import capture
from mnemoscope.activations.streams.blank import Blank
from mnemoscope.core.errors import UserError
from mnemoscope.data.batch import NO_QUESTION
from mnemoscope.scope.models import served_model
from mnemoscope.scope.served import ServedModel
from mnemoscope.scope.translator_stream import SOURCE
from mnemoscope.training.run import Run

TEXT = "the king sees a boat\nbi lizuzi vugazi"


@pytest.fixture(scope="module", params=["translator", "aligner"])
def served(request: pytest.FixtureRequest, world: World) -> ServedModel:
    return served_model(f"run:{request.param}", world.runs, [])


def test_source_and_target_are_read_one_after_the_other(served: ServedModel) -> None:
    reading = served.parse(TEXT)
    start, count, end = reading.edges
    assert start == 0
    assert reading.names[count] == "▸"
    assert "".join(reading.names[:count]).strip() == "the king sees a boat∎"
    assert "".join(reading.names[count + 1 : end]).strip() == "bi lizuzi vugazi"
    assert reading.targets[:count] == [NO_QUESTION] * count
    assert reading.targets[count:-1] == reading.tokens[count + 1 :]
    assert served.say(reading.targets[-1]) == "∎"
    # Without a second line it is the model's own translation that is looked at.
    own = served.parse("the king sees a boat")
    assert own.tokens[: own.edges[1]] == reading.tokens[:count]
    assert set(own.targets) == {NO_QUESTION}
    assert all(one.answer is None for one in own.phrases)
    assert served.parse(" \n ").tokens == []


def test_what_is_shown_is_what_the_model_computes(served: ServedModel) -> None:
    reading = served.parse(TEXT)
    count = reading.edges[1]
    tokens = torch.tensor(reading.tokens)
    stream: Any = served.start(None)
    first = stream.step(tokens[:count], None, 0, reading.targets[:count])
    second = stream.step(tokens[count:], first.state, count, reading.targets[count:])
    model = stream.model
    with torch.no_grad(), capture(model, "layers.*alignment") as seen:
        state = model.encode(tokens[None, :count])
        out = model(tokens[None, count:], state)
    torch.testing.assert_close(second.logits, out.logits[0])
    assert (first.nbytes, second.nbytes) == (state.nbytes, out.state.nbytes)
    aligned = [part for part in second.parts if part.name.endswith("source")]
    for part, weights in zip(aligned, seen.values(), strict=True):
        np.testing.assert_allclose(part.shares[:, :count], weights[0].mean(0).numpy(), atol=1e-6)
        assert not part.shares[:, count:].any()
        for head in range(part.heads):
            one = stream.head(tokens[count:], first.state, count, part.name, head)
            np.testing.assert_allclose(one[:, :count], weights[0, head].numpy(), atol=1e-6)
    for part in (*first.parts, *second.parts):
        np.testing.assert_allclose(part.shares.sum(1), 1, atol=1e-5)
    assert sum(panel["bytes"] for panel in second.panels) <= second.nbytes


def test_a_source_word_is_hidden_and_the_state_stays(served: ServedModel) -> None:
    reading = served.parse(TEXT)
    count = reading.edges[1]
    tokens = torch.tensor(reading.tokens)
    stream: Any = served.start(None)
    state = stream.step(tokens[:count], None, 0, reading.targets[:count]).state
    kept = [tensor.clone() for _, tensor in state.tensors()]

    def after(blank: Blank | None) -> torch.Tensor:
        found: torch.Tensor = stream.read(tokens[count:], state, tokens[:count], blank)[0]
        return found

    whole = after(None)
    for blank in (Blank(0, SOURCE, (1, 1)), Blank(0, SOURCE), Blank(layer=0), Blank()):
        assert not torch.allclose(after(blank), whole), blank
    # Without any word it does not matter which they were.
    other = stream.model.encode(tokens[None, :count].flip(1))
    emptied = [stream._blanked(one.layers[-1], 0, Blank(), count) for one in (state, other)]
    for (name, left), (_, right) in zip(emptied[0].tensors(), emptied[1].tensors(), strict=True):
        assert torch.equal(left, right), name
    for (name, tensor), before in zip(state.tensors(), kept, strict=True):
        assert torch.equal(tensor, before), name


def test_a_translator_before_training_is_another(world: World) -> None:
    trained, twin = (
        served_model(f"{kind}:translator", world.runs, []) for kind in ("run", "untrained")
    )
    assert (trained.about["trained"], twin.about["trained"]) == (True, False)
    assert trained.parse(TEXT) == twin.parse(TEXT)
    weights = [next(one.start(None).model.parameters()) for one in (trained, twin)]  # type: ignore[attr-defined]
    assert not torch.equal(*weights)


def test_an_encoder_of_ours_fills_in_words(world: World) -> None:
    served = served_model("run:encoder", world.runs, [])
    assert served.about["kind"] == "encoder"
    assert "[" in served.about["example"]
    reading = served.parse(served.about["example"])
    assert reading.edges == (0, len(reading.tokens))
    tokens = torch.tensor(reading.tokens)
    stream: Any = served.start(None)
    step = stream.step(tokens, None, 0, reading.targets)
    model = Run.open(world.runs / "encoder").model()
    mask = torch.ones(1, len(tokens), dtype=torch.bool)
    mask[0, 2] = False
    with torch.no_grad():
        torch.testing.assert_close(step.logits, model(tokens[None]).logits[0])
        hidden = model(tokens[None], mask=mask).logits[0]
    blanked = stream.read(tokens, None, tokens[:0], Blank(tokens=(2, 2)))[0]
    torch.testing.assert_close(blanked, hidden)
    assert step.nbytes == 0
    assert step.panels == []
    for part in step.parts:
        np.testing.assert_allclose(part.shares.sum(1), 1, atol=1e-6)
        assert np.triu(part.shares, 1).any()  # later words too
    with pytest.raises(UserError, match="carries no state"):
        stream.read(tokens, None, tokens[:0], Blank(layer=0))
