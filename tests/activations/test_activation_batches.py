"""Texts are tokenised once for each tokenizer; models that read other tokens are told apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny_models import tiny

import mnemoscope as ms
from mnemoscope.activations.batches import encode, to_batches
from mnemoscope.activations.capture import side_by_side
from mnemoscope.core.errors import UserError
from mnemoscope.open import open_reader

TEXTS = [f"a cat sat {word} a mat" for word in ("on", "at", "by", "on")] * 20
WORDS = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "a", "cat", "sat", "on", "at", "by", "mat"]


def tokenizer(ends: bool = True) -> Any:
    """One word, one token; with ``ends``, [CLS] and [SEP] around every text."""
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    known = {word: number for number, word in enumerate(WORDS)}
    plain = tokenizers.Tokenizer(tokenizers.models.WordLevel(known, unk_token="[UNK]"))
    plain.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    if ends:
        plain.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=plain, cls_token="[CLS]", sep_token="[SEP]", unk_token="[UNK]"
    )


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    """Three models: the first two have the same tokenizer, each a copy of its own."""
    for family, ends in (("gpt2", True), ("llama", True), ("bert", False)):
        tiny(family).save_pretrained(tmp_path / family)
        tokenizer(ends).save_pretrained(tmp_path / family)
    return [str(tmp_path / family) for family in ("gpt2", "llama", "bert")]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many texts each call of any tokenizer was given."""
    transformers = pytest.importorskip("transformers")
    seen: list[int] = []
    own = transformers.PreTrainedTokenizerFast.__call__

    def counting(self: Any, texts: Any, **options: Any) -> Any:
        seen.append(len(texts))
        return own(self, texts, **options)

    monkeypatch.setattr(transformers.PreTrainedTokenizerFast, "__call__", counting)
    return seen


def test_two_models_with_one_tokenizer_have_texts_tokenised_once(
    folders: list[str], calls: list[int]
) -> None:
    first, second, _ = map(open_reader, folders)
    assert first.cutting == second.cutting
    both = list(side_by_side({"A": first, "B": second}, TEXTS, sites="layer.*.out"))
    assert calls == [len(TEXTS)]
    assert {name[:2] for name in both[0].sites} == {"A/", "B/"}


def test_a_tokenizer_that_was_told_to_pad_is_still_the_same(folders: list[str]) -> None:
    first, second, _ = map(open_reader, folders)
    second.tokenizer.pad_token = "[PAD]"
    second.tokenizer(["a cat", "a"], padding=True, truncation=True, max_length=4)
    again = open_reader(second.model, second.tokenizer)
    assert again.tokens == first.tokens
    assert again.encode is not None
    assert first.encode is not None
    assert [a.tolist() for a in again.encode(TEXTS)] == [b.tolist() for b in first.encode(TEXTS)]


def test_models_that_read_a_text_as_different_tokens_are_refused(
    folders: list[str], calls: list[int]
) -> None:
    first, _, other = map(open_reader, folders)
    # They know the same words, but one of them puts something around every text.
    assert first.tokens == other.tokens
    with pytest.raises(UserError, match="read a text as different tokens"):
        encode([first, other], TEXTS)
    assert calls == [len(TEXTS)] * 2


def test_one_text_is_one_text_and_one_list_of_ids_is_one(folders: list[str]) -> None:
    reader = open_reader(folders[0])
    alone, listed = (to_batches(reader, given, None, 8) for given in (TEXTS[0], TEXTS[:1]))
    assert [one.tolist() for one, _ in alone] == [one.tolist() for one, _ in listed]
    (rows, _), *others = to_batches(reader, [4, 5, 6], None, 8)
    assert rows.tolist() == [[4, 5, 6]]
    assert not others
    (both, *_) = side_by_side({"a": folders[0], "b": folders[1]}, TEXTS[0], sites="layer.0.out")
    assert len(both) == len(TEXTS[0].split())


def test_a_text_without_sites_is_told_to_name_them() -> None:
    with pytest.raises(UserError, match="say which sites"):
        list(ms.capture(tiny("gpt2"), "one text"))


def test_a_model_without_a_vocabulary_reads_token_ids_only() -> None:
    reader = open_reader(tiny("gpt2"))
    with pytest.raises(UserError, match="has no vocabulary"):
        to_batches(reader, TEXTS, None, 4)
    ((tokens, rows),) = to_batches(reader, [[4, 5], [6, 7]], None, 4)
    assert sorted(zip(rows.tolist(), tokens.tolist(), strict=True)) == [(0, [4, 5]), (1, [6, 7])]
