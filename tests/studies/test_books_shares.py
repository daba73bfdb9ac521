"""Books with a floor and a ceiling: shares, rates that are tried, BPE, perplexity per word."""

from __future__ import annotations

import gzip
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mnemoscope as ms
from mnemoscope.core.data import from_plain, to_plain
from mnemoscope.core.errors import UserError
from mnemoscope.data.documents import Document
from mnemoscope.data.text import Text
from mnemoscope.data.vocabulary import Merges
from mnemoscope.report.document import Figure, Table
from mnemoscope.studies.books.losses import RECOVERABLE, Losses
from mnemoscope.studies.books.measure import read_passages, tampered
from mnemoscope.studies.books.page import page
from mnemoscope.studies.books.parts import part_books
from mnemoscope.studies.books.passages import asked_text, count_words, cut, lengths, sizes
from mnemoscope.studies.books.result import (
    BooksModel,
    BooksResult,
    BooksTrial,
    Examined,
    ReadPassage,
)
from mnemoscope.studies.books.study import VARIANTS, Books
from mnemoscope.studies.rates import Tried, TriedRate, best_rate
from mnemoscope.studies.sizes import count
from mnemoscope.studies.study import Diverged, label
from mnemoscope.training.run import Run

SMALL: dict[str, Any] = {
    "valid": ("typesmapping", "calls"),
    "models": ("transformer_xl", "none", "ceiling"),
    "learning_rates": (1e-3, 1e-2),
    "tried_steps": 2,
    "unit": "bpe",
    "vocabulary_size": 300,
    "width": 16,
    "heads": 2,
    "segment": 16,
    "vectors": 16,
    "context": 128,
    "steps": 4,
    "batch": 4,
    "seeds": 1,
    "read": 1024,
    "warm": 128,
    "passages": 2,
}
STUDY = "books"
# Tokens in the stretches of two passages; every token has three bytes.
TOKENS = np.array([[16, 16, 32], [16, 16, 16]])
NATS = 3 * math.log(2)


def result_of(bits: dict[str, list[float]], older: float = 0.1, **changes: Any) -> BooksResult:
    """A result in which seed s of a model spends ``bits[model][s]`` per byte everywhere."""

    def grid(values: Any) -> Any:
        return tuple(map(tuple, np.asarray(values, dtype=float).tolist()))

    extra = {
        name: grid(3 * TOKENS * older)
        for name in ("blanked", "shuffled", "older blanked", "older shuffled")
    }
    result = BooksResult(
        segment=16,
        warm=16,
        probe=1,
        trained_bytes=10,
        training_text=100,
        passages=tuple(
            ReadPassage(name, tuple(3.0 * row), tuple(3.0 * row), tuple(1.0 * row), 10)
            for name, row in zip(("sea", "land"), TOKENS, strict=True)
        ),
        models={
            name: BooksModel(VARIANTS.get(name, ("", label(name)))[1], 5, 16, 1, 0, 4.0, 0.01)
            for name in bits
        },
        trials=tuple(
            BooksTrial(
                name, seed, f"{name}-seed{seed}", Examined(grid(3 * TOKENS * rate), extra, 8, 1.0)
            )
            for name, rates in bits.items()
            for seed, rate in enumerate(rates)
        ),
        bigram=9.0,
        unit="bpe",
        vocab=300,
        context=128,
        recent=8,
    )
    return replace(result, **changes)


def words(result: BooksResult) -> str:
    return " ".join(part for one in page(result) for part in one.parts if isinstance(part, str))


def parts(result: BooksResult) -> dict[str, Figure | Table]:
    found = [part for one in page(result) for part in one.parts]
    return {part.name: part for part in found if isinstance(part, Figure | Table)}


def test_a_share_is_what_a_memory_saves_of_what_full_attention_saves() -> None:
    bits = {"none": [2.0, 2.0], "ceiling": [1.0, 1.0], "transformer_xl": [1.4, 1.6]}
    losses = Losses(result_of(bits))
    share = losses.share("transformer_xl", losses.all)
    assert share.mean == pytest.approx(0.5)
    # Passages agree, so only the seeds are drawn: both the first, one of each, both the second.
    assert (share.low, share.high) == pytest.approx((0.4, 0.6))
    for stretch in range(3):
        assert losses.share("transformer_xl", losses.only(stretch)).mean == pytest.approx(0.5)
    assert losses.recoverable is not None
    assert losses.recoverable.mean == pytest.approx(NATS)
    assert losses.older_share("transformer_xl").mean == pytest.approx(0.1)
    # Floor and ceiling are drawn too.
    bits = {"none": [2.0, 2.2], "ceiling": [1.0, 1.0], "transformer_xl": [1.5, 1.5]}
    share = (losses := Losses(result_of(bits))).share("transformer_xl", losses.all)
    assert share.mean == pytest.approx(0.6 / 1.1)
    assert (share.low, share.high) == pytest.approx((0.5, 0.7 / 1.2))


def test_the_page_leads_with_what_memories_recover() -> None:
    bits = {"none": [2.0], "ceiling": [1.0], "transformer_xl": [1.75], "infinite": [1.5]}
    result = result_of(bits)
    said = words(result)
    assert f"saves {NATS:.3f} (95 %: {NATS:.3f} to {NATS:.3f}) nats per token" in said
    assert "∞-former 0.50 (95 %: 0.50 to 0.50) and Transformer-XL 0.25" in said
    assert "so much of it is lost: full attention 0.10" in said
    shown = parts(result)
    assert [row["share of the gain"] for row in shown["Share of the recoverable gain"].data] == [
        pytest.approx(0.5),
        pytest.approx(0.25),
    ]
    over = shown["Share of the gain against tokens read"]
    assert isinstance(over, Figure)
    assert [row["tokens read"] for row in over.data] == [16, 32, 64] * 2
    table = shown["Recovered of what there is to gain"]
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == ["full attention", "∞-former", "Transformer-XL"]
    again = from_plain(BooksResult, json.loads(json.dumps(to_plain(result))))
    assert again == result


def test_nothing_is_claimed_where_there_is_too_little_to_gain() -> None:
    gain = 0.9 * RECOVERABLE / NATS
    result = result_of({"none": [2.0], "ceiling": [2 - gain], "transformer_xl": [1.0]})
    said = words(result)
    assert "nothing is claimed: full attention over 128 tokens saves 0.027" in said
    assert "too little to gain" in said
    assert "saved against no memory:" not in said
    assert "Share of the recoverable gain" not in parts(result)
    assert "not trained" not in said
    assert "Memories were therefore not trained." in words(replace(result, stopped=True))


def test_nothing_is_claimed_of_models_that_did_not_pass_their_gate() -> None:
    bits = {"none": [2.0], "ceiling": [1.0], "transformer_xl": [1.5], "infinite": [1.9]}
    said = words(result_of(bits, bigram=1.8))
    assert "nothing is claimed: no memory did not beat counted pairs of tokens" in said
    assert "Share of it" not in said
    bits |= {"none": [1.7], "infinite": [2.5]}
    said = words(result_of(bits, bigram=1.8))
    assert "Share of it that memories of equal size recover: Transformer-XL" in said
    assert "Not ranked: ∞-former did not beat counted pairs of tokens" in said
    lost = result_of(bits)
    trials = tuple(
        replace(one, outcome=Diverged("nan")) if one.model == "ceiling" else one
        for one in lost.trials
    )
    assert "no training of full attention came to its end" in words(replace(lost, trials=trials))


def test_perplexity_per_word_is_e_to_all_nats_over_all_words() -> None:
    result = result_of({"none": [2.0], "ceiling": [1.0]})
    losses = Losses(result)
    perplexity = losses.word_perplexity("none")
    assert perplexity is not None
    nats = 2.0 * math.log(2) * 3 * TOKENS.sum()
    assert perplexity.tolist() == pytest.approx([math.exp(nats / 20)])
    table = parts(result)["Perplexity per word"]
    assert isinstance(table, Table)
    assert table.rows[0][:2] == ["no memory", round(2 * NATS, 4)]
    older = replace(result, passages=tuple(replace(one, words=None) for one in result.passages))
    assert "Perplexity per word" not in parts(older)


def test_words_are_counted_as_wikitext_counts_them() -> None:
    text = " \n = Title = \n \n The cat sat . \n"
    assert count_words(text) == 7
    assert count_words(text, line_ends=True) == 7 + 4


def test_what_is_counted_is_what_was_asked_however_it_is_cut() -> None:
    text = "the whale swam and the sea was wide \n" * 60
    known = Merges.learn(text, 280)
    passages = cut([Document("a", text), Document("b", text)], 4096, 1, 16, known)
    for one in passages:
        asked = asked_text(one, 16, known)
        assert text.encode().startswith(known.decode(one.ids[:1]).encode() + asked.encode())
        assert sizes([one], 16).sum() == len(asked.encode())
        assert lengths([one], 16).sum() == 16 * one.segments(16)


def test_all_of_a_text_can_be_read() -> None:
    text = "".join(map(str, range(3000)))
    passages = cut([Document("a", text)], 1000, None, 16)
    assert len(passages) == len(text) // 1000
    read = sorted(asked_text(one, 16, ms.data.vocabulary.Bytes()) for one in passages)
    # Only a token at the beginning and rests of segments are left out.
    assert sum(map(len, read)) > len(text) - 16 * len(passages) - 1


def small(name: str) -> Any:
    torch.manual_seed(3)
    study = Books.preset("quick", **{**SMALL, "models": (name,)})
    model = study.configs()[name].build().double().eval()
    with torch.no_grad():  # untrained models hardly look at their memories
        for weight in model.parameters():
            weight.mul_(2)
    return model


def test_the_ceiling_sees_beyond_the_segment_and_the_floor_does_not() -> None:
    tokens = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (1, 96)))
    other = tokens.clone()
    other[:, :16] = tokens[:, 16:32]

    def last(model: Any, ids: torch.Tensor) -> torch.Tensor:
        state = None
        for part in ids.split(16, 1):
            out = model(part, state)
            state = out.state
        found: torch.Tensor = out.logits
        return found

    with torch.no_grad():
        assert torch.equal(*(last(small("none"), ids) for ids in (tokens, other)))
        ceiling = small("ceiling")
        assert (last(ceiling, tokens) - last(ceiling, other)).abs().max() > 1e-6
        # Read in segments as at once.
        at_once = ceiling(tokens).logits[:, -16:]
        torch.testing.assert_close(last(ceiling, tokens), at_once)


def test_of_the_ceiling_only_what_is_older_is_exchanged() -> None:
    model = small("ceiling")
    tokens = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (2, 96)))
    with torch.no_grad():
        state: Any = model(tokens[:, :80]).state
        given: dict[str, Any] = dict(tampered(state, 8))
        mixed, blank = given["older shuffled"], given["older blanked"]
        for own, others, alone in zip(state.layers, mixed.layers, blank.layers, strict=True):
            kept, mix, left = (one.cache.inputs for one in (own, others, alone))
            assert torch.equal(mix[:, -8:], kept[:, -8:])
            assert torch.equal(mix[:, :-8], kept.flip(0)[:, :-8])
            assert torch.equal(left, kept[:, -8:])
        before = model(tokens[:, 80:], state).logits
        for one in (mixed, blank):
            assert (model(tokens[:, 80:], one).logits - before).abs().max() > 1e-6
        assert torch.equal(model(tokens[:, 80:], state).logits, before)
    # Who holds no more than a cache has nothing older.
    assert "older shuffled" not in tampered(state, 80)


def test_the_preset_novels_is_of_a_million_parameters_and_equal_states() -> None:
    study = Books.preset("novels")
    configs = study.configs(2048)
    found = {name: count(config) for name, config in configs.items()}
    assert list(found)[:2] == ["none", "ceiling"]
    assert min(found.values()) > 1_000_000
    assert max(found.values()) <= 1.002 * min(found.values())
    passages = cut([Document("a", "a" * 1400), Document("b", "b" * 1400)], 1400, 1, 64)
    carried = {
        name: read_passages(configs[name].build().eval(), passages, 64, controls=False).state_bytes
        for name in ("transformer_xl", "compressive", "infinite", "infinite-sticky")
    }
    assert max(carried.values()) <= 1.01 * min(carried.values())
    assert study.steps * study.batch * study.segment > 2_000_000
    assert Books.preset("wikitext").line_ends


def test_rates_are_tried_on_books_that_are_neither_trained_on_nor_reported(
    published: ms.Published,
) -> None:
    result, folder = published.result, published.page.parent / "runs"
    reported = {one.book for one in result.passages}
    assert reported == set(SMALL["valid"])
    assert len(result.tuned) == 1
    assert not reported & set(result.tuned)
    tried = [(one.model, one.lr) for one in result.tried]
    assert tried == [(m, lr) for m in ("none", "ceiling", "transformer_xl") for lr in (1e-3, 1e-2)]
    for name, model in result.models.items():
        assert model.lr == best_rate(result.tried, name, 0.0)
        assert Run.open(folder / f"{name}-seed0").config.training.lr == model.lr
    task = Run.open(folder / "rate-none-lr0.01").config.task
    assert isinstance(task, Text)
    assert task.valid == result.tuned
    assert set(task.tested or ()) == reported
    train = task.vocabulary.decode(task.tokens("train"))
    for name in (*reported, *result.tuned):
        (document,) = [one for one in ms.data.documents.read_documents(None) if one.title == name]
        assert document.text not in train
    assert "nothing else is reported of" in words(result)
    assert list(result.models)[:2] == ["none", "ceiling"]
    assert [len(one.tokens) for one in result.passages] == [
        len(one.bytes) for one in result.passages
    ]
    assert all(one.words for one in result.passages)


def test_memories_are_not_trained_where_there_is_nothing_to_gain(tmp_path: Path) -> None:
    out = tmp_path / "study"
    options = {**SMALL, "learning_rates": (), "stop": True}
    result = ms.study("books", out=out, jobs=1, **options).result
    assert result.stopped
    assert list(result.models) == ["none", "ceiling"]
    assert not (out / "runs" / "transformer_xl-seed0").exists()
    assert "nothing is claimed" in words(result)


def test_the_best_rate_is_that_of_the_lowest_loss() -> None:
    tried = (
        TriedRate("none", 0.1, Diverged("nan")),
        TriedRate("none", 0.01, Tried(3.0)),
        TriedRate("none", 0.001, Tried(2.0)),
        TriedRate("lstm", 0.01, Tried(1.0)),
    )
    assert best_rate(tried, "none", 7.0) == 0.001
    assert best_rate(tried, "gru", 7.0) == 7.0
    bits = {"none": [2.0], "ceiling": [1.0]}
    said = words(result_of(bits, tried=tried[:3], tuned=("emma",), tried_steps=9))
    assert "for 9 steps at each of 3 rates, and read emma" in said
    assert "a better one may lie beyond: no memory." in said


def test_books_part_into_three() -> None:
    books = [Document(f"{name}.txt", name * 5000) for name in "abcd"] + [Document("e.txt", "e")]
    found = part_books(books, ("a", "b"), 0.1, None, tries=True)
    assert [one.title for one in found.tuned] == ["c"]
    assert found.of_text == {"valid": ["c.txt"], "tested": ["a.txt", "b.txt"]}
    assert part_books(books, ("a",), 0.1, None, tries=False).of_text == {"valid": ["a.txt"]}
    assert [one.title for one in part_books(books, ("a",), 0.1, ("d",), tries=True).tuned] == ["d"]
    with pytest.raises(UserError, match="there is no document 'a'"):
        part_books(books, ("a",), 0.1, ("a",), tries=True)
    with pytest.raises(UserError, match="none is left"):
        part_books(books[:3], ("a", "b"), 0.1, None, tries=True)


def test_wikitext_is_a_folder_of_three_files(tmp_path: Path) -> None:
    line = " = Valkyria = \n \n The game 's battle system is carried over . \n"
    for name in ("train.shuffled", "valid", "test"):
        (tmp_path / f"{name}.txt.gz").write_bytes(gzip.compress((line * 90).encode()))
    own = {**SMALL, "valid": ("test",), "tuned": ("valid",), "source": str(tmp_path)}
    options = {**own, "read": 512, "warm": 64, "models": ("none",), "passages": None}
    result = ms.study(
        "books", preset="wikitext", out=tmp_path / "out", jobs=1, stop=False, **options
    ).result
    assert result.tuned == ("valid",)
    assert result.line_ends
    asked = sum(one.words for one in result.passages)
    assert asked == pytest.approx(count_words(line * 90, line_ends=True), rel=0.05)
    table = parts(result)["Perplexity per word"]
    assert isinstance(table, Table)
    assert "words and ends of lines" in table.caption
    (trial,) = result.trials
    perplexity = 2 ** (np.sum(trial.outcome.bits) / asked)
    assert table.rows[0][-1] == pytest.approx(perplexity, abs=0.01)


def test_options_of_the_ceiling_are_checked() -> None:
    with pytest.raises(UserError, match="must be more than the vectors 64 that others carry"):
        Books.preset("quick", context=64)
    with pytest.raises(UserError, match="let both take part"):
        Books.preset("quick", models=("none", "infinite"), stop=True)
