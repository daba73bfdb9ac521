"""A text, token ids and tensors of them are the same to every call that reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from complaints import complaint

import mnemoscope as ms
from mnemoscope.models.inputs import token_batch, token_rows
from mnemoscope.training.run import Run

TEXT = "abab cab abba"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    home = tmp_path_factory.mktemp("inputs")
    (home / "text.txt").write_text("abc cab bac " * 200)
    return ms.train(
        "text", "transformer", home / "run", source=str(home / "text.txt"), unit="characters",
        width=8, layers=1, heads=2, steps=1, batch=2, segment=8,
    )  # fmt: skip


def same_inputs(run: Run) -> list[Any]:
    """One text in all the ways in which it can be given."""
    ids = run.vocabulary.encode(TEXT)
    tensor = torch.from_numpy(ids)
    lists = [ids.tolist(), [ids.tolist()], tuple(ids.tolist())]
    arrays = [ids, ids[None], [ids], tensor, tensor[None], [tensor], tensor.to(torch.int32)]
    return [TEXT, [TEXT], *lists, *arrays]


def test_every_form_of_a_text_is_captured_alike(run: Run) -> None:
    (expected,) = ms.capture(run, TEXT, sites="layer.*.out")
    assert len(expected) == len(TEXT)
    for given in same_inputs(run):
        (found,) = ms.capture(run, given, sites="layer.*.out")
        assert np.array_equal(found.tokens, expected.tokens)
        assert torch.equal(found.sites["layer.0.out"], expected.sites["layer.0.out"])


def test_every_form_of_a_text_is_read_and_continued_alike(run: Run) -> None:
    stream = ms.stream(run.folder)
    expected = stream.read(TEXT)
    said = ms.generate(run.folder, TEXT, 5, temperature=0)
    (text,) = said.texts
    assert run.vocabulary.encode(text).tolist() == said.tokens[0].tolist()
    for given in same_inputs(run):
        assert torch.equal(stream.read(given, segment=4).logits, stream.read(TEXT, None, 4).logits)
        assert torch.equal(stream.read(given).logits, expected.logits)
        again = ms.generate(run, given, 5, temperature=0)
        assert torch.equal(again.tokens, said.tokens)


def test_every_form_of_a_text_is_looked_at_alike(run: Run) -> None:
    options: dict[str, Any] = {"tokens": 500, "length": 16, "samples": 10}
    texts = [TEXT * 5, TEXT[::-1] * 4]
    ids = [run.vocabulary.encode(text) for text in texts]
    expected = ms.lens("change", run.folder, texts, **options)
    for given in (ids, [one.tolist() for one in ids], [torch.from_numpy(one) for one in ids]):
        assert repr(ms.lens("change", run.folder, given, **options).table()) == repr(
            expected.table()
        )


def test_a_model_in_training_goes_on_training(run: Run) -> None:
    model = run.model().train()
    ms.generate(model, [1, 2], 2)
    assert model.training
    assert ms.generate(model, torch.tensor([[1, 2]]), 2, temperature=0).texts == ()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "there is no text to read"),
        (3, "cannot be read: give a text, token ids"),
        (None, "cannot be read: give a text, token ids"),
        (Path("book.txt"), "cannot be read: give a text, token ids"),
        ({"input_ids": [1]}, "such as its 'input_ids'"),
        (["a text", [1, 2]], "texts and token ids are mixed"),
        ([0.5, 1.5], "cannot be read|no token ids"),
        ([[1, 2], "a text"], "texts and token ids are mixed"),
        ([[1, [2]]], "cannot be read"),
        ([object()], "cannot be read"),
        (torch.zeros(2, 3), "are no token ids"),
        (torch.zeros(2, 3, 4, dtype=torch.long), r"of shape \(2, 3, 4\) are no token ids"),
        ([[True, False]], "are no token ids"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_line(given: Any, said: str) -> None:
    with pytest.raises(ms.UserError, match=said):
        token_rows(given, lambda texts: [np.arange(3) for _ in texts], "gru")


def test_text_needs_a_vocabulary_and_rows_one_length() -> None:
    assert complaint(lambda: token_rows("a text", None, "gru")) == (
        "gru has no vocabulary and cannot read text: give token ids, or its tokenizer="
    )
    assert "have one length, not 1 to 2" in str(
        complaint(lambda: token_batch([[1], [1, 2]], None, ""))
    )
    assert "the text is empty" in str(complaint(lambda: token_batch([[]], None, "")))
    model = ms.build("gru", vocab=5, width=4)
    assert "has no vocabulary" in str(complaint(lambda: ms.generate(model, "a text", 1)))
    assert ms.stream(model).read([1, 2, 3]).logits.shape == (1, 3, 5)


@pytest.mark.parametrize("given", ["abc", [[0, 1]], [0, 1]])
def test_a_model_itself_takes_tensors_and_says_who_takes_the_rest(given: Any) -> None:
    model = ms.build("gru", vocab=5, width=4)
    assert "ms.stream(model).read" in str(complaint(lambda: model(given)))


def test_what_was_generated_shows_itself_in_a_notebook(run: Run) -> None:
    shown = ms.generate(run.model(), [[0, 1]], 3, temperature=0)._repr_html_()
    assert shown.startswith("<table>")
    assert "its state has" in shown
