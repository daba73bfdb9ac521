"""Models of transformers under the page: their own attention, their own loss, their documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scope_world import EVIL, World

from mnemoscope.core.errors import UserError
from mnemoscope.scope.huggingface_stream import HuggingFacePageStream
from mnemoscope.scope.models import ServedModel, served_model

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
    first, second = stream.step(tokens[:18]), stream.step(tokens[18:])
    for layer, weights in enumerate(wanted):
        mean = weights[0].mean(0).numpy()
        np.testing.assert_allclose(first.parts[layer].shares, mean[:18, :18], atol=1e-5)
        np.testing.assert_allclose(second.parts[layer].shares, mean[18:], atol=1e-5)
    # Keys and values of 2 heads of 8 numbers, 2 layers, 30 tokens, 4 bytes.
    assert second.nbytes == 2 * 2 * 8 * 2 * 30 * 4
    assert sum(panel["bytes"] for panel in second.panels) == second.nbytes


def test_bits_are_the_loss_of_the_model_in_segments_too(base: Any) -> None:
    tokens = torch.randint(200, (24,), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        loss = base(input_ids=tokens[None], labels=tokens[None]).loss
    stream = HuggingFacePageStream(base)
    bits = [*stream.step(tokens[:9]).bits, *stream.step(tokens[9:]).bits]
    known = [one for one in bits if one is not None]
    assert len(known) == 23
    np.testing.assert_allclose(np.mean(known), float(loss) / np.log(2), rtol=1e-3)


def test_a_text_is_read_under_every_document_at_once(notes: ServedModel) -> None:
    tokens = torch.from_numpy(notes.encode("Boats came home at dusk"))
    stream: Any = notes.start(EVIL)
    panel = stream.step(tokens).panels[0]
    assert panel["kind"] == "entries"
    assert [one["name"] for one in panel["losses"]] == [EVIL, None, "kettle"]
    memory = stream.memory
    for one in panel["losses"]:
        with torch.no_grad(), memory.document(one["name"]):
            loss = memory.model(input_ids=tokens[None], labels=tokens[None]).loss
        np.testing.assert_allclose(one["bits"], float(loss) / np.log(2), rtol=1e-3)
    assert panel["used"]["shape"] == [6, len(tokens)]
    assert panel["selection"]["shape"] == [2, 6]
    # What is carried on is one row's, not that of all documents.
    assert stream.step(tokens).nbytes == 2 * 2 * 8 * 2 * 2 * len(tokens) * 4


def test_under_no_document_nothing_is_added(notes: ServedModel) -> None:
    stream = notes.start(None)
    panel = stream.step(torch.from_numpy(notes.encode("Boats came"))).panels[0]
    assert panel["document"] is None
    assert panel["added"] == [0] * 6
    assert [one["name"] for one in panel["losses"]] == [None, "kettle", EVIL]


def test_a_state_of_another_make_is_listed() -> None:
    config = transformers.MambaConfig(
        vocab_size=40, hidden_size=16, num_hidden_layers=2, state_size=4
    )
    torch.manual_seed(0)
    model = transformers.MambaForCausalLM(config).eval()
    tokens = torch.randint(40, (12,))
    stream = HuggingFacePageStream(model)
    stream.step(tokens[:7])
    step = stream.step(tokens[7:])
    assert step.parts == []
    assert step.panels[0]["kind"] == "tensors"
    assert step.nbytes == step.panels[0]["bytes"] > 0


def test_a_long_term_memory_is_not_shown_and_says_what_shows_it(tmp_path: Path) -> None:
    (tmp_path / "endless.safetensors").touch()
    with pytest.raises(UserError, match="mnemoscope infinite worth"):
        served_model("given:0", tmp_path, [str(tmp_path)])
