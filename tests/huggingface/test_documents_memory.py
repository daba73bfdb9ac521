"""A document memory on five families: on where it should be, gone where it should not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hf_families import FAMILIES, WORDS, build, logits, prompt, texts

import mnemoscope as ms
from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.config import DocumentOptions, Guidance
from mnemoscope.huggingface.documents.contexts import changes
from mnemoscope.huggingface.documents.memory import DocumentMemory
from mnemoscope.huggingface.texts import Documents

NAMES = list(texts())
# Random weights say less than a blind guess: there is no room for guidance above their loss.
PLAIN = Guidance(alpha=0.0)


@pytest.fixture(scope="module", params=FAMILIES)
def fitted(request: pytest.FixtureRequest) -> tuple[Any, DocumentMemory]:
    model = build(request.param)
    memory = ms.attach(model, "documents", layer=1, entries=16)
    memory.fit(texts(), PLAIN, epochs=60, lr=0.03)
    return model, memory


class Tupled(torch.nn.Module):
    """A block as older versions have it: its hidden states come first in a tuple."""

    def __init__(self, block: torch.nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, *given: Any, **named: Any) -> tuple[Any, ...]:
        return (self.block(*given, **named), None)


class Untupled(torch.nn.Module):
    """Takes the tuple apart again, so that the model around it can go on."""

    def __init__(self, block: torch.nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, *given: Any, **named: Any) -> Any:
        return self.block(*given, **named)[0]


def test_a_document_changes_logits_and_none_changes_nothing(
    fitted: tuple[Any, DocumentMemory],
) -> None:
    model, memory = fitted
    tokens = prompt()
    memory.detach()
    base = logits(model, tokens)
    memory._hook = model_block(model, 1).register_forward_hook(memory._add)
    assert torch.equal(logits(model, tokens), base)
    with memory.document(None):
        assert torch.equal(logits(model, tokens), base)
    with memory.document(NAMES[0]):
        first = logits(model, tokens)
    with memory.document(NAMES[1]):
        second = logits(model, tokens)
    assert float((first - base).abs().max()) > 1e-3
    assert float((first - second).abs().max()) > 1e-3
    with memory.document([NAMES[1], None]):
        rows = logits(model, tokens)
    torch.testing.assert_close(rows[0], second[0])
    assert torch.equal(rows[1], base[1])


def model_block(model: Any, index: int) -> Any:
    from mnemoscope.huggingface.blocks import find_blocks

    return find_blocks(model)[index]


def test_generation_with_cache_is_as_without(fitted: tuple[Any, DocumentMemory]) -> None:
    model, memory = fitted
    tokens = prompt()
    options = {"max_new_tokens": 8, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    plain = model.generate(tokens, **options)
    with memory.document([NAMES[0], NAMES[2]]):
        quick = model.generate(tokens, use_cache=True, **options)
        slow = model.generate(tokens, use_cache=False, **options)
    assert torch.equal(quick, slow)
    assert not torch.equal(quick, plain)


def test_beams_and_returned_sequences_follow_their_row(fitted: tuple[Any, DocumentMemory]) -> None:
    model, memory = fitted
    tokens = prompt()
    options = {"max_new_tokens": 6, "num_beams": 3, "do_sample": False, "eos_token_id": None}
    options |= {"pad_token_id": 0, "num_return_sequences": 2}
    with memory.document([NAMES[0], NAMES[2]]):
        both = model.generate(tokens, **options)
    for row, name in ((0, NAMES[0]), (1, NAMES[2])):
        with memory.document(name):
            alone = model.generate(tokens[row : row + 1], **options)
        assert torch.equal(both[2 * row : 2 * row + 2], alone)


def test_left_padding_changes_nothing(fitted: tuple[Any, DocumentMemory]) -> None:
    model, memory = fitted
    short = prompt(1, 4)
    padded = torch.cat((torch.zeros(1, 3, dtype=torch.long), short), 1)
    mask = torch.tensor([[0, 0, 0, 1, 1, 1, 1]])
    options = {"max_new_tokens": 5, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    with memory.document(NAMES[1]):
        alone = model.generate(short, attention_mask=torch.ones_like(short), **options)
        beside = model.generate(padded, attention_mask=mask, **options)
    assert torch.equal(alone[:, 4:], beside[:, 7:])


def test_detached_is_the_base_bit_for_bit() -> None:
    for family in FAMILIES:
        model = build(family)
        before = {name: weight.clone() for name, weight in model.state_dict().items()}
        base = logits(model, prompt())
        memory = ms.attach(model, "documents", entries=8)
        memory.fit(texts(), PLAIN, epochs=2)
        assert not any(weight.requires_grad for weight in model.parameters())
        memory.detach()
        assert torch.equal(logits(model, prompt()), base)
        assert all(torch.equal(before[name], weight) for name, weight in model.state_dict().items())
        assert all(weight.requires_grad for weight in model.parameters())
        with pytest.raises(UserError, match="detached"), memory.document(NAMES[0]):
            pass


def test_blocks_that_return_tuples() -> None:
    model = build("llama")
    plain = ms.attach(model, "documents", layer=1, entries=8)
    plain.fit(texts(), PLAIN, epochs=3)
    with plain.document(NAMES[0]):
        expected = logits(model, prompt())
    plain.detach()
    blocks = model.model.layers
    blocks[1] = Tupled(blocks[1])
    for index in (0, 2):
        blocks[index] = Untupled(Tupled(blocks[index]))
    # The model takes the tuple apart after the hook, as older versions do.
    inner = blocks[1]
    forward = blocks[2].forward
    blocks[2].forward = lambda given, *rest, **named: forward(given[0], *rest, **named)
    for cache in ("off", "on"):
        memory = ms.attach(model, "documents", layer=1, entries=8)
        memory.fit(texts(), PLAIN, epochs=3, cache=cache)
        with memory.document(NAMES[0]):
            torch.testing.assert_close(logits(model, prompt()), expected)
        memory.detach()
    assert isinstance(inner, Tupled)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_base_in_half_precision(dtype: torch.dtype) -> None:
    model = build("llama").to(dtype)
    memory = ms.attach(model, "documents", entries=16)
    run = memory.fit(texts(), PLAIN, epochs=10)
    assert run.right < run.none
    assert memory.store.values.dtype == torch.float32
    with memory.document(NAMES[0]):
        assert logits(model, prompt()).dtype == dtype


def test_dropout_and_trainable_weights_of_the_base_stay_out() -> None:
    found = []
    for training in (False, True):
        model = build("opt").train(training)
        memory = ms.attach(model, "documents", entries=8)
        model.requires_grad_(True)
        found.append(memory.fit(texts(), PLAIN, epochs=3).losses)
        assert model.training is training
        assert all(weight.grad is None for weight in model.parameters())
    assert found[0] == found[1]


def test_a_tied_unembedding_takes_a_document_memory() -> None:
    model = build("qwen2", tie_word_embeddings=True)
    memory = ms.attach(model, "documents", entries=8)
    before = model.lm_head.weight.clone()
    run = memory.fit(texts(), PLAIN, epochs=5)
    assert run.right < run.none
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert torch.equal(model.lm_head.weight, before)


# Dynamo looks at .grad of all that it traces.
@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_a_compiled_model_takes_a_document_memory() -> None:
    model = build("llama", layers=1)
    base = logits(model, prompt())
    memory = ms.attach(model, "documents", entries=8)
    memory.fit(texts(), PLAIN, epochs=1)
    compiled = torch.compile(model, backend="eager")
    with memory.document(NAMES[0]):
        found = logits(compiled, prompt())
        torch.testing.assert_close(found, logits(model, prompt()))
    assert float((found - base).abs().max()) > 0
    torch.testing.assert_close(logits(compiled, prompt()), base)


def test_gradient_checkpointing_gives_the_same_gradients() -> None:
    found = []
    for checkpointing in (False, True):
        model = build("llama").train()
        memory = ms.attach(model, "documents", layer=0, entries=8)
        memory.fit(texts(), PLAIN, epochs=2)
        assert model.training
        if checkpointing:
            model.gradient_checkpointing_enable()
        with memory.document(NAMES[0]):
            torch.autograd.backward(model(prompt(), labels=prompt(), use_cache=False).loss)
        found.append(memory.store.values.grad)
    torch.testing.assert_close(found[0], found[1])


def test_saved_and_loaded_is_the_same_memory(tmp_path: Path) -> None:
    model = build("qwen2")
    memory = ms.attach(model, "documents", layer=1, entries=8, select="relu", depth=2)
    given = {"a.b": texts()["text 0"], "ü/..": texts()["text 1"]}
    memory.fit(Documents(given, segment=10), PLAIN, epochs=3)
    found = memory.contexts(given).losses
    assert len(found) == 6
    with memory.document("a.b"):
        expected = logits(model, prompt())
    memory.save(tmp_path / "kept")
    memory.detach()
    again = DocumentMemory.load(tmp_path / "kept", model)
    assert again.names == ["a.b", "ü/.."]
    assert np.array_equal(again.contexts(given).losses, found)
    with again.document("a.b"):
        assert torch.equal(logits(model, prompt()), expected)
    again.detach()
    DocumentMemory.load(tmp_path / "kept", model.to(torch.bfloat16)).detach()
    with pytest.raises(UserError, match="another base"):
        DocumentMemory.load(tmp_path / "kept", build("llama"))
    with pytest.raises(UserError, match="no file"):
        DocumentMemory.load(tmp_path, model)


def test_contexts_name_the_document_and_words_are_counted(fitted: tuple[Any, Any]) -> None:
    _, memory = fitted
    found = memory.contexts()
    assert found.losses.shape == (4, 4)
    row = found.table()[-1]
    assert row["right"] < row["none"]
    assert row["named low"] <= row["named"] <= row["named high"]
    assert "has the lowest loss (by chance 25.0%)" in str(found)
    words = memory.words(3, top=5)
    assert len(words.raised) == len(words.lowered) == 5
    assert words.raised[0][1] >= words.raised[-1][1] > words.lowered[0][1]
    parts = memory.split(NAMES[0])
    gain = found.none[0] - found.right[0]
    assert parts.gain == pytest.approx(gain, abs=1e-4)
    assert parts.rival < parts.gain


def test_what_a_document_changes_does_not_depend_on_how_logits_are_centred() -> None:
    torch.manual_seed(0)
    before, after = torch.randn(2, 5, 7, dtype=torch.float64)
    targets = torch.tensor([0, 3, 6, 2, 2])
    found = changes(before, after, targets)
    shifts = torch.randn(2, 5, 1, dtype=torch.float64)
    torch.testing.assert_close(changes(before + shifts[0], after + shifts[1], targets), found)
    for row, target in enumerate(targets.tolist()):
        slow = [float(after[row].softmax(0)[w].log() - before[row].softmax(0)[w].log())
                for w in range(7)]  # fmt: skip
        rival = max((w for w in range(7) if w != target), key=lambda w: float(before[row, w]))
        wanted = [slow[target], slow[rival], sum(slow) / 7]
        assert found[row].tolist() == pytest.approx(wanted)


def test_options_of_documents_are_those_of_the_guide() -> None:
    assert {row[0] for row in DocumentOptions.options()} >= {"layer", "entries", "select", "start"}
    assert WORDS > 3
