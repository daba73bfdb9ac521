from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mnemoscope as ms
from mnemoscope.api import Published
from mnemoscope.core.data import from_plain, to_plain
from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import MEMORIES
from mnemoscope.core.statistics import Estimate
from mnemoscope.data.documents import Document
from mnemoscope.memories.transformer_xl.state import LayerState
from mnemoscope.report.document import Figure, Table
from mnemoscope.studies.books.losses import Losses
from mnemoscope.studies.books.measure import read_passages, tampered
from mnemoscope.studies.books.page import CONTROLS, page
from mnemoscope.studies.books.parts import draw
from mnemoscope.studies.books.passages import PROBE, Passage, bigram_bits, cut, lengths, stretch
from mnemoscope.studies.books.result import (
    BooksModel,
    BooksResult,
    BooksTrial,
    Examined,
    Grid,
    ReadPassage,
)
from mnemoscope.studies.books.study import Books
from mnemoscope.studies.sizes import count
from mnemoscope.studies.study import Diverged, label

SMALL: dict[str, Any] = {
    "valid": ("typesmapping", "calls"),
    "models": ("none", "transformer_xl", "infinite-sticky"),
    "width": 16,
    "heads": 2,
    "segment": 16,
    "vectors": 16,
    "steps": 4,
    "batch": 4,
    "seeds": 2,
    "read": 1024,
    "warm": 128,
    "passages": 2,
}
STUDY = "books"
WORDS = "in the beginning the whale swam and the sea was wide "


def library(*sizes: int) -> list[Document]:
    rng = np.random.default_rng(7)
    words = WORDS.split()
    return [
        Document(f"book{place}.txt", (" ".join(rng.choice(words, size)) + " ")[:size])
        for place, size in enumerate(sizes)
    ]


def small(name: str, **options: Any) -> Any:
    torch.manual_seed(3)
    study = Books.preset("quick", **{**SMALL, "models": (name,), **options})
    model = study.configs()[name].build().double().eval()
    # Untrained models hardly look at their memories: make what they find count.
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2)
    return model


def test_books_leaves_its_page_its_result_and_its_numbers(published: Published) -> None:
    folder = published.page.parent
    kept = json.loads((folder / "result.json").read_text())["result"]
    assert from_plain(BooksResult, kept) == published.result
    assert "Does memory help to read books?" in published.page.read_text()
    names = ("bits-per-byte-by-model", "bits-saved-against-bytes-read", "loss-without-the-state")
    for name in (*names, "loss-against-bytes-read", "size-of-model-and-state"):
        assert (folder / "figures" / f"{name}.csv").stat().st_size > 0
    assert {one.book for one in published.result.passages} == set(SMALL["valid"])
    assert sum(len(one.bytes) > 0 for one in published.result.passages) == 4


def test_a_model_without_memory_loses_nothing_with_its_state(published: Published) -> None:
    for one in published.result.trials:
        costs = [np.abs(values).max() for values in one.outcome.extra.values()]
        assert (max(costs) == 0) == (one.model == "none")
        assert one.outcome.state_bytes > 0 or one.model == "none"


def test_books_cut_off_goes_on_to_the_same_result(published: Published, tmp_path: Path) -> None:
    folder = tmp_path / "half"
    shutil.copytree(published.page.parent, folder)
    (folder / "result.json").unlink()
    (folder / "runs" / "transformer_xl-seed1" / "examined.json").unlink()
    shutil.rmtree(folder / "runs" / "infinite-sticky-seed0")
    again = ms.study("books", out=folder, jobs=1, **SMALL)
    for old, new in zip(published.result.trials, again.result.trials, strict=True):
        assert replace(new.outcome, seconds=0) == replace(old.outcome, seconds=0)


@pytest.mark.parametrize(
    "name", ["none", "transformer_xl", "compressive", "infinite", "infinite-sticky"]
)
@torch.no_grad()
def test_bits_are_those_of_reading_one_passage_after_the_other(name: str) -> None:
    model, segment = small(name), 16
    passages = cut(library(400, 257, 90), 1000, 1, segment)
    found = np.array(read_passages(model, passages, segment).bits)
    expected = np.zeros_like(found)
    for row, passage in enumerate(passages):
        state = None
        ids = torch.from_numpy(passage.ids)[None]
        for step in range(passage.segments(segment)):
            here = slice(step * segment, (step + 1) * segment)
            out = model(ids[:, here], state)
            state = out.state
            for place, chances in zip(range(here.start, here.stop), out.logits[0], strict=True):
                chance = chances.softmax(0)[ids[0, place + 1]]
                expected[row, stretch(step)] -= math.log2(float(chance))
    np.testing.assert_allclose(found, expected, rtol=1e-6)  # losses are taken in float32
    assert (found > 0).tolist() == (lengths(passages, segment) > 0).tolist()


@pytest.mark.parametrize("name", ["transformer_xl", "compressive", "infinite", "infinite-sticky"])
def test_controls_give_what_the_named_states_give(name: str) -> None:
    model, segment = small(name), 16
    tokens = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (4, 13 * segment)))
    state: Any = None
    for part in tokens[:, :-segment].split(segment, 1):
        state = model(part, state).state
    last = tokens[:, -segment:]
    given = tampered(state)
    with torch.no_grad():
        logits = {control: model(last, other).logits for control, other in given.items()}
        own = model(last, state).logits
        for row in range(4):
            other = state.select([(row + 2) % 4])
            torch.testing.assert_close(logits["shuffled"][row], model(last[[row]], other).logits[0])
        torch.testing.assert_close(logits["blanked"], model(last).logits)
    assert all((logits[control] - own).abs().max() > 1e-6 for control in logits)
    assert ("older shuffled" in given) == (name != "transformer_xl")


def test_only_what_is_older_than_the_cache_is_exchanged() -> None:
    model = small("infinite")
    tokens = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (2, 96)))
    state: Any = None
    for part in tokens.split(16, 1):
        state = model(part, state).state
    mixed, blank = tampered(state)["older shuffled"], tampered(state)["older blanked"]
    assert mixed is not None
    assert blank is not None
    for own, other in zip(state.layers, mixed.layers, strict=True):
        assert isinstance(other, LayerState)
        assert other.signal is not None
        assert torch.equal(own.cache.inputs, other.cache.inputs)
        assert torch.equal(own.signal.coefficients.flip(0), other.signal.coefficients)
    # A blank signal is a signal that nobody hears.
    with torch.no_grad():
        expected = model(tokens[:, :16], blank).logits
        for layer in model.layers:
            layer.attention.signal.out.weight.zero_()
        torch.testing.assert_close(model(tokens[:, :16], state).logits, expected)


def test_contenders_have_equal_parameters_and_equal_states() -> None:
    study = Books.preset("quick")
    configs = study.configs()
    sizes = {name: count(config) for name, config in configs.items()}
    assert set(sizes) == set(study.models)
    assert list(sizes)[:2] == ["none", "ceiling"]
    assert max(sizes.values()) <= sizes["transformer_xl"] <= 1.002 * min(sizes.values())
    passages = cut(library(1400, 1400), 1400, 1, study.segment)
    carried = {
        name: read_passages(config.build().eval(), passages, study.segment).state_bytes
        for name, config in configs.items()
        if name != "ceiling"
    }
    assert carried.pop("none") == 0
    assert (
        carried["transformer_xl"] == carried["compressive"] == 2 * 4 * study.width * study.vectors
    )
    assert max(carried.values()) <= 1.01 * min(carried.values())


def test_passages_begin_at_the_beginning_and_never_overlap() -> None:
    books = library(1000, 640, 210, 50)
    passages = cut(books, 300, 3, 16)
    by_book = {book.title: [one for one in passages if one.book == book.title] for book in books}
    assert [len(by_book[f"book{place}"]) for place in range(4)] == [3, 2, 1, 0]
    first = bytes(by_book["book0"][0].ids.astype(np.uint8)).decode()
    assert books[0].text.startswith(first)
    assert all(len(one.ids) <= 301 for one in passages)
    assert all(a.segments(16) >= b.segments(16) for a, b in pairwise(passages))
    with pytest.raises(UserError, match="fewer than two"):
        cut(library(500, 50), 1000, 1, 16)


def test_the_longest_passage_ends_with_the_second_longest() -> None:
    passages = cut(library(900, 200), 4096, 1, 16)
    assert [one.segments(16) for one in passages] == [12, 12]
    read_bytes, probed = lengths(passages, 16), lengths(passages, 16, PROBE)
    assert read_bytes.tolist() == [[16, 16, 32, 64, 64]] * 2
    assert probed.tolist() == [[0, 0, 0, 16, 16]] * 2


def test_pairs_that_were_not_seen_are_as_likely_as_their_second_token() -> None:
    train = np.array([1, 2, 1, 2, 1])  # 1 is followed twice by 2, as is 2 by 1
    two, four = np.array([1, 1]), np.array([1, 3])
    asked = [Passage("a", np.array([1, 2]), two), Passage("b", np.array([7, 9]), four)]
    # Before any pair was seen, a token is expected as often as it came: 2 twice, 9 never.
    expected = -(math.log2((2 + 256 * 3 / 261) / 258) + math.log2(1 / 261)) / (1 + 3)
    assert bigram_bits(train, asked) == pytest.approx(expected)


def test_whole_long_books_are_drawn_and_some_are_left() -> None:
    books = library(9000, 9000, 100, 9000, 9000)
    drawn = draw(books, 0.1)
    assert drawn == draw(books, 0.1)
    assert len(drawn) == 2
    assert all(one in books and len(one.text) == 9000 for one in drawn)
    assert len(draw(books[:3], 0.99)) == 2
    with pytest.raises(UserError, match="of 2 documents 1 are"):
        draw(books[1:3], 0.5)


def test_options_of_books_are_checked_before_anything_runs(tmp_path: Path) -> None:
    out = tmp_path / "a"
    with pytest.raises(UserError, match=r"unknown memory 'infinit'.*'infinite'"):
        ms.study("books", out=out, models="none,infinit")
    with pytest.raises(UserError, match="'bahdanau' cannot take part"):
        ms.study("books", out=out, models="none,bahdanau")
    with pytest.raises(UserError, match="common divisor"):
        ms.study("books", out=out, segment=36)
    with pytest.raises(UserError, match="too short"):
        ms.study("books", out=out, read=256)
    with pytest.raises(UserError, match="multiple of heads"):
        ms.study("books", out=out, width=65)
    assert not out.exists()
    with pytest.raises(UserError, match="leaves none after a warm-up of 16384"):
        ms.study("books", out=out, **{**SMALL, "read": 32768, "warm": 16384})
    for name in ("one", "two"):
        (tmp_path / f"{name}.txt").write_text(WORDS * 100)
    with pytest.raises(UserError, match="leave some to train on"):
        ms.study("books", out=out, **{**SMALL, "source": str(tmp_path), "valid": ("one", "two")})
    assert not (out / "runs").exists()


def test_the_paper_preset_of_books_differs_from_quick() -> None:
    quick, paper = Books.preset("quick"), Books.preset("paper")
    assert paper.read > quick.read
    assert paper.steps > quick.steps
    assert min(quick.seeds, paper.seeds) >= 3


@pytest.mark.parametrize("name", MEMORIES)
def test_any_memory_reads_books_by_its_own_name(name: str) -> None:
    study = Books.preset("quick", models=(name,))
    budget = count(Books.preset("quick", models=("transformer_xl",)).configs()["transformer_xl"])
    config = study.configs()[name]
    assert 0.95 * budget < count(config) <= budget
    passages = cut(library(1400, 1400), 1400, 1, study.segment)
    found = read_passages(config.build().eval(), passages, study.segment)
    # Beside its vectors a memory may carry positions and counts.
    assert 0 < found.state_bytes <= 1.02 * 2 * 4 * study.width * study.vectors
    assert np.abs(found.extra["blanked"]).max() > 0


AMOUNTS = np.array([[16, 16, 32], [16, 16, 16]])


def grid(values: Any) -> Grid:
    return tuple(map(tuple, np.asarray(values, dtype=float).tolist()))


def result_of(bits: dict[str, list[float]], cost: float = 0.0, **costs: float) -> BooksResult:
    """A result in which seed s of a model spends ``bits[model][s]`` per byte everywhere.

    A control costs ``cost`` per byte more, or what ``costs`` says of it.
    """
    extra = {name: grid(AMOUNTS * costs.get(name.replace(" ", "_"), cost)) for name in CONTROLS}
    labels = {"none": "no memory"}
    return BooksResult(
        segment=16,
        warm=16,
        probe=1,
        trained_bytes=10,
        training_text=100,
        passages=tuple(
            ReadPassage(name, tuple(row), tuple(row))
            for name, row in zip(("sea", "land"), grid(AMOUNTS), strict=True)
        ),
        models={
            model: BooksModel(labels.get(model) or label(model), 5, 16, 1, 0, 4.0) for model in bits
        },
        trials=tuple(
            BooksTrial(
                model, seed, f"{model}-seed{seed}", Examined(grid(AMOUNTS * rate), extra, 8, 1.0)
            )
            for model, rates in bits.items()
            for seed, rate in enumerate(rates)
        ),
    )


def diverged(result: BooksResult, *runs: str) -> BooksResult:
    return replace(
        result,
        trials=tuple(
            replace(one, outcome=Diverged("nan")) if one.run in runs else one
            for one in result.trials
        ),
    )


def words(result: BooksResult) -> str:
    return " ".join(part for one in page(result) for part in one.parts if isinstance(part, str))


def test_a_result_of_books_goes_to_json_and_back_and_draws_the_same_page() -> None:
    result = result_of({"none": [2.0, 2.2], "lstm": [1.0, 1.2]}, cost=0.5)
    result = diverged(result, "lstm-seed1")
    again = from_plain(BooksResult, json.loads(json.dumps(to_plain(result))))
    assert again == result
    for first, second in zip(page(result), page(again), strict=True):
        assert first.title == second.title
        for old, new in zip(first.parts, second.parts, strict=True):
            assert repr(getattr(old, "data", old)) == repr(getattr(new, "data", new))


def test_the_page_of_books_says_the_numbers_of_its_result() -> None:
    result = result_of({"none": [2.0, 2.2], "lstm": [1.0, 1.2]}, cost=0.5)
    lstm = replace(result.models["lstm"], width=40, mem_len=None, mlp_ratio=None)
    result = replace(result, models={**result.models, "lstm": lstm})
    parts = [part for one in page(result) for part in one.parts]
    shown = {part.name: part for part in parts if isinstance(part, Figure | Table)}
    said = words(result)
    assert "LSTM (1.100) < no memory (2.100)" in said
    assert "112 bytes in all" in said
    assert "as wide as the parameters allow: LSTM 40." in said
    rows = shown["Bits per byte by model"].data
    assert [row["bits per byte"] for row in rows] == pytest.approx([2.0, 2.2, 1.0, 1.2])
    assert rows[2]["perplexity per byte"] == pytest.approx(2.0)
    saved = shown["Bits saved against bytes read"].data
    assert [row["bytes read"] for row in saved] == [16, 32, 64]
    assert [row["bits per byte saved"] for row in saved] == pytest.approx([1.0, 1.0, 1.0])
    worth = {
        row["control"]: row["extra bits per byte"] for row in shown["Loss without the state"].data
    }
    assert worth == pytest.approx(dict.fromkeys(CONTROLS, 0.5))
    table = shown["Bits per byte by book"]
    assert table.rows[1] == ["LSTM", 1.1, 1.1, 1.1, round((2**1.0 + 2**1.2) / 2, 4)]
    assert shown["Size of model and state"].rows[1] == ["LSTM", 5, 8, None, 0, None, 1.0]


def test_numbers_are_ratios_of_sums_and_bands_follow_the_seeds() -> None:
    losses = Losses(result_of({"none": [2.0, 2.2], "transformer_xl": [1.0, 1.2]}, cost=0.5))
    assert losses.rate("transformer_xl").tolist() == pytest.approx([1.0, 1.2])
    assert losses.rate("transformer_xl", book="land").tolist() == pytest.approx([1.0, 1.2])
    gain = losses.gain("transformer_xl", losses.all)
    assert gain.mean == pytest.approx(1.0)
    assert (gain.low, gain.high) == pytest.approx((0.8, 1.2))
    cost = losses.cost("transformer_xl", "blanked")
    assert (cost.mean, cost.low, cost.high) == pytest.approx((0.5, 0.5, 0.5))
    assert losses.growth("transformer_xl", losses.only(1), losses.only(2)).mean == pytest.approx(0)


def test_verdicts_say_help_harm_and_doubt() -> None:
    bits = {"none": [2.0, 2.1], "transformer_xl": [1.0, 1.1], "compressive": [3.0, 3.1]}
    said = words(result_of({**bits, "infinite": [1.9, 2.2]}))
    assert "saved against no memory: Transformer-XL +1.0000" in said
    assert "Worse than no memory, although trained with one: Compressive Transformer -1" in said
    assert "Not to be told from no memory: ∞-former" in said
    assert "Transformer-XL (1.050) < no memory (2.050) ≈ ∞-former (2.050)" in said
    assert "No use of it could be shown: Transformer-XL" in said


def test_an_older_part_that_matters_is_told_from_one_that_any_text_could_fill() -> None:
    bits = {"none": [2.0, 2.0], "infinite": [1.9, 1.9]}
    said = words(result_of(bits, cost=0.1))
    assert "of this passage is used: ∞-former +0.1000" in said
    assert "overstates" not in said
    said = words(result_of(bits, cost=0.1, shuffled=0, older_shuffled=0))
    assert "For ∞-former an empty state is worse than a wrong one" in said
    assert "any passage's does as well" in said
    said = words(result_of(bits, cost=0.1, shuffled=0, older_blanked=0))
    assert "Another passage's misleads, but a blank one costs nothing" in said


def test_models_that_do_not_beat_pairs_of_bytes_are_not_ranked() -> None:
    result = replace(result_of({"none": [2.0, 2.2], "lstm": [1.0, 1.2]}), bigram=2.1)
    said = [part for part in page(result)[1].parts if isinstance(part, str)]
    assert "lower is better: LSTM (1.100). Here" in said[0]
    assert "passed by LSTM; not by no memory" in said[1]


def test_a_diverged_training_is_said_and_left_out() -> None:
    result = result_of({"none": [2.0, 2.0], "transformer_xl": [1.0, 1.0], "infinite": [1.0]})
    result = diverged(result, "transformer_xl-seed1", "infinite-seed0")
    assert "all that follows: Transformer-XL (seed 1), ∞-former (seed 0)." in words(result)
    assert Losses(result).models == ["none", "transformer_xl"]


def test_a_study_of_which_all_trainings_diverged_says_so() -> None:
    result = diverged(result_of({"none": [2.0]}), "none-seed0")
    assert "diverged and are left out of all that follows: no memory (seed 0)." in words(result)


def test_a_study_of_one_model_still_has_a_page() -> None:
    assert "No model with a memory" in words(result_of({"none": [2.0]}))
    assert "Without the state" in words(result_of({"transformer_xl": [2.0]}))


def test_an_estimate_ignores_draws_that_say_nothing() -> None:
    one = Estimate.of(1.0, np.array([np.nan, 1.0, 1.0]))
    assert replace(one, mean=0.0) == Estimate(0.0, 1.0, 1.0)
