"""Every bad input that a document memory can meet has its message."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hf_families import build, prompt, texts, transformers

import mnemoscope as ms
from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.config import Guidance
from mnemoscope.huggingface.texts import Documents

PLAIN = Guidance(alpha=0.0)
IDS = list(range(3, 20))


class Letters:
    """A tokenizer that knows 26 letters."""

    eos_token_id = 2

    def encode(self, text: str) -> list[int]:
        return [3 + (ord(letter.lower()) - 97) % 26 for letter in text if letter.isalpha()]

    def decode(self, ids: list[int]) -> str:
        return "".join(chr(94 + one) for one in ids)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "no documents"),
        ({"a": "   "}, "'a' is empty"),
        ({"a": "b"}, "1 tokens: at least 2"),
        ({3: "text"}, "must be a string"),
        ({"": "text"}, "must be a string"),
        ({"a": "one text", "b": "one text"}, "'a' and 'b' have the same text"),
    ],
)
def test_documents_that_cannot_be(given: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Documents(given, Letters())


def test_documents_that_are_nearly_the_same_are_named() -> None:
    with pytest.warns(UserWarning, match="'a' and 'b' share 9"):
        Documents({"a": list(range(200)), "b": [*range(199), 7], "c": IDS})


def test_text_needs_a_tokenizer_and_names_may_hold_anything() -> None:
    with pytest.raises(UserError, match="give the tokenizer"):
        ms.attach(build("gpt2"), "documents").fit({"a": "text", "b": "other"})
    with pytest.raises(UserError, match="tokenizer of the model"):
        Documents({"a": "text"})
    memory = ms.attach(build("gpt2"), "documents", tokenizer=Letters())
    memory.fit({"a.b/c": "some text of letters", "<b>": "another one here"}, PLAIN, epochs=2)
    with memory.document("a.b/c"):
        memory.model(prompt())
    assert all(isinstance(word, str) for word, _ in memory.words(0).raised)


def test_segments_predict_every_token_once(tmp_path: Path) -> None:
    ids = {"long": list(range(100, 130)), "two": [5, 6], "seven": list(range(200, 207))}
    for segment, overlap in ((8, 0), (8, 3), (2, 0), (64, 10)):
        segments = Documents(ids, segment=segment, overlap=overlap).segments()
        for owner, tokens in enumerate(ids.values()):
            own = segments[segments.owner == owner]
            asked = own.targets[own.targets != -100]
            assert asked.tolist() == tokens[1:]
        assert segments.tokens.shape[1] <= segment
    assert Documents(ids, segment=64).segments(longest=4).tokens.shape[1] == 4
    (tmp_path / "a.txt").write_text("hello there")
    (tmp_path / "b.md").write_text("good bye now")
    assert Documents.from_folder(tmp_path, Letters()).names == ["a.txt", "b.md"]
    with pytest.raises(UserError, match="overlap"):
        Documents(ids, segment=4, overlap=4)


def test_padding_is_neither_learnt_nor_counted() -> None:
    """Padding has the id of a word, and of the end in many models: only the mask tells."""
    memory = ms.attach(build("gpt2"), "documents", entries=4)
    given = {"short": IDS[:5], "long": list(range(20, 50)), "zeros": [0, 0, 2, 2, 0, 2]}
    memory.fit(given, PLAIN, epochs=2)
    together = memory.contexts(given)
    for place, name in enumerate(given):
        alone = memory.contexts({name: given[name]})
        assert alone.right[0] == pytest.approx(together.right[place], abs=1e-5)


def test_documents_longer_than_the_context_are_cut() -> None:
    memory = ms.attach(build("gpt2"), "documents", entries=4)
    long = torch.randint(3, 60, (300,)).tolist()
    run = memory.fit(Documents({"a": long, "b": IDS}, segment=500), PLAIN, epochs=1)
    assert run.segments == 4


def test_one_document_has_no_other() -> None:
    memory = ms.attach(build("gpt2"), "documents", entries=4)
    with pytest.raises(UserError, match="one document only"):
        memory.fit({"a": IDS}, Guidance(alpha=0.5), epochs=1)
    assert memory.fit({"a": IDS}, PLAIN, epochs=1).names == ["a"]
    assert math.isnan(memory.contexts().wrong[0])


def test_a_tau_that_makes_no_sense_is_told_with_both_numbers() -> None:
    said = r"tau=1\.000 is not above the loss without memory, \d"
    with pytest.warns(UserWarning, match=said):
        ms.attach(build("gpt2"), "documents").fit(texts(), Guidance(tau=1.0), epochs=1)
    with pytest.warns(UserWarning, match=r"tau=9\.000 is not below log of the vocabulary, 4\.094"):
        ms.attach(build("gpt2"), "documents").fit(texts(), Guidance(tau=9.0), epochs=1)
    assert Guidance(tau="none+2").target(3.0, 100) == 5
    assert Guidance(tau="middle").target(3.0, 100) == pytest.approx((3 + math.log(100)) / 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": -1}, "alpha"),
        ({"tau": "high"}, "none\\+2"),
        ({"tau": math.nan}, "tau must be"),
        ({"negative": "othr"}, "negative"),
    ],
)
def test_guidance_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Guidance.make(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": 3}, "blocks 0 to 2"),
        ({"layer": -4}, "blocks 0 to 2"),
        ({"entries": 0}, "entries"),
        ({"key_dim": 0}, "key_dim"),
        ({"entires": 4}, "did you mean 'entries'"),
        ({"select": "softmax"}, "select"),
    ],
)
def test_options_of_a_document_memory_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ms.attach(build("gpt2"), "documents", **options)


def test_models_that_cannot_take_a_document_memory() -> None:
    with pytest.raises(UserError, match="no language model"):
        ms.attach(torch.nn.Linear(2, 2), "documents")
    with pytest.raises(UserError, match="no output embedding"):
        ms.attach(build("gpt2").transformer, "documents")
    pair = transformers.T5Config(vocab_size=9, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    with pytest.raises(UserError, match="encoder-decoder"):
        ms.attach(transformers.T5ForConditionalGeneration(pair), "documents")
    with pytest.raises(UserError, match="did you mean 'documents'"):
        ms.attach(build("gpt2"), "document")
    model = build("gpt2")
    ms.attach(model, "documents", layer=0)
    with pytest.raises(UserError, match="already"):
        ms.attach(model, "documents", layer=0)
    ms.attach(model, "documents", layer=1)


def test_models_that_are_not_all_here() -> None:
    model = build("gpt2")
    model.hf_device_map = {"encoder_decoder": 0, "lm_head": "cpu"}
    with pytest.raises(UserError, match="spreads it over 0 and cpu"):
        ms.attach(model, "documents")
    with pytest.raises(UserError, match="not in memory"):
        ms.attach(build("gpt2").to("meta"), "infinite")


class Int8(torch.nn.Module):
    """A linear layer of whole numbers and a scale for each output."""

    def __init__(self, layer: torch.nn.Linear, differentiable: bool) -> None:
        super().__init__()
        self.out_features, self.bias = layer.out_features, layer.bias
        self.differentiable = differentiable
        self.scale = layer.weight.detach().abs().amax(1, keepdim=True) / 127
        whole = (layer.weight.detach() / self.scale).round().to(torch.int8)
        self.weight = torch.nn.Parameter(whole, requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.set_grad_enabled(self.differentiable and torch.is_grad_enabled()):
            return torch.nn.functional.linear(x, self.weight * self.scale, self.bias)


def quantised(differentiable: bool) -> Any:
    model = build("llama")
    for part in list(model.modules()):
        for name, layer in list(part.named_children()):
            if isinstance(layer, torch.nn.Linear):
                setattr(part, name, Int8(layer, differentiable))
    return model


def test_quantised_models_learn_where_gradients_pass() -> None:
    model = quantised(differentiable=True)
    memory = ms.attach(model, "documents", layer=1, entries=16)
    run = memory.fit(texts(), PLAIN, epochs=20)
    assert run.right < run.none
    assert memory.contexts().losses.shape == (4, 4)
    with pytest.raises(UserError, match="quantised"):
        memory.words(0)
    memory.detach()
    memory = ms.attach(quantised(differentiable=False), "documents", layer=1, entries=16)
    with pytest.raises(UserError, match="no gradient comes back"):
        memory.fit(texts(), PLAIN, epochs=1)


def test_calls_of_a_document_memory_that_cannot_be() -> None:
    memory = ms.attach(build("gpt2"), "documents", entries=4, key_dim=2)
    with pytest.raises(UserError, match="no documents yet"):
        memory.contexts({"a": IDS})
    memory.fit(texts(), PLAIN, epochs=1)
    with pytest.raises(UserError, match="did you mean 'text"), memory.document("text one"):
        pass
    with pytest.raises(UserError, match="no documents are given"), memory.document([]):
        pass
    with (
        pytest.raises(UserError, match="2 documents are set for a batch of 3"),
        memory.document(["text 0", "text 1"]),
    ):
        memory.model(prompt(3))
    for keys in (torch.zeros(1, 3), torch.full((1, 2), math.nan)):
        with pytest.raises(UserError, match=r"\(rows, 2\)"), memory.representation(keys):
            pass
    with pytest.raises(UserError, match=r"\(rows, 4\)"), memory.opening(torch.zeros(1, 2)):
        pass
    with pytest.raises(UserError, match="entry 4 does not exist"):
        memory.words(4)
    with pytest.raises(UserError, match="already: forget it"):
        memory.add("text 0", IDS)
    with pytest.raises(UserError, match="does not know"):
        memory.add("new", IDS, keep={"unknown": IDS[::-1]})
    with pytest.raises(UserError, match="unknown document 'nobody'"):
        memory.contexts({"nobody": IDS})
    with pytest.raises(UserError, match="Fitting has no option 'epoch'"):
        memory.fit(texts(), epoch=3)
    with pytest.raises(UserError, match="token id 999"):
        memory.fit({"a": [999, 3, 4], "b": IDS}, PLAIN, epochs=1)
    with pytest.raises(UserError, match="a dict from name to text"):
        memory.fit(["text"])
    memory.detach()
    with pytest.raises(UserError, match="detached already"):
        memory.detach()


def test_zero_is_not_no_document() -> None:
    model = build("llama")
    memory = ms.attach(model, "documents", entries=8, select="sigmoid")
    memory.fit(texts(), PLAIN, epochs=5)
    with torch.no_grad():
        base = model(prompt()).logits
        with memory.representation(torch.zeros(1, 16)):
            assert float((model(prompt()).logits - base).abs().max()) > 0
        memory.store.bias.zero_()
        with memory.opening(torch.zeros(1, 8)):
            torch.testing.assert_close(model(prompt()).logits, base)


def test_a_memory_without_effect_is_an_error() -> None:
    model = build("llama")
    memory = ms.attach(model, "documents", layer=0, entries=4)
    # A model that ignores what its first block returns.
    forward = model.model.layers[1].forward
    model.model.layers[1].forward = lambda given, *rest, **named: forward(
        torch.ones_like(given), *rest, **named
    )
    with pytest.raises(UserError, match="changes no logit"):
        memory.fit(texts(), PLAIN, epochs=2, cache="off")


def test_rows_without_a_document_beside_nan_stay_finite() -> None:
    model = build("gpt2")
    memory = ms.attach(model, "documents", entries=4)
    memory.fit(texts(), PLAIN, epochs=1)
    with torch.no_grad():
        base = model(prompt()).logits
        memory.store.values.fill_(math.nan)
        with memory.document(["text 0", None]):
            found = model(prompt()).logits
    assert bool(found[0].isnan().all())
    assert torch.equal(found[1], base[1])
