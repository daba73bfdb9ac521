"""The study `infinite` on a pretrained model and novels, both tiny; and its page."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import mnemoscope as ms
from mnemoscope.core.data import from_plain, to_plain
from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.config import InfiniteOptions, TransformerXLOptions
from mnemoscope.report.document import Figure, Table
from mnemoscope.studies.infinite.contestants import DENSITIES, LearnerName, learners
from mnemoscope.studies.infinite.labels import LABELS, LEARNT
from mnemoscope.studies.infinite.page import page
from mnemoscope.studies.infinite.result import (
    CLASSES,
    InfiniteResult,
    NovelLosses,
    Novels,
    Past,
    Reader,
)
from mnemoscope.studies.infinite.study import InfiniteStudy

pytest.importorskip("transformers")

from hf_families import save_whole

from mnemoscope.studies.infinite.novels import passages

SENTENCE = "the kettle sang on the stove and nobody said a word to the old man who sat there"
WORDS = SENTENCE.split()
SMALL: dict[str, Any] = {"windows": (8, 16), "context": 64, "passages": 2, "vectors": 16}
SMALL |= {"sizes": (8,), "novel_tokens": 65, "novel_steps": 6}
SMALL |= {"learners": get_args(LearnerName), "learning_rates": (1e-4, 1e-3)}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    home = tmp_path_factory.mktemp("novels")
    save_whole(home / "model", SENTENCE, max_position_embeddings=512, num_hidden_layers=3)
    (home / "books").mkdir()
    for name in ("one", "two", "middlemarch", "moby-dick"):
        draw = random.Random(name)
        own = [] if name in ("one", "two") else ["Ahab", "Dorothea", "Queequeg"]
        text = " ".join(draw.choice(WORDS + own) for _ in range(2000))
        (home / "books" / f"{name}.txt").write_text(text)
    return {"model": str(home / "model"), "source": str(home / "books")}


def test_every_contestant_reads_the_novels_and_the_page_says_what_came_of_it(
    world: dict[str, Any], tmp_path: Path
) -> None:
    found = ms.study("infinite", "quick", out=tmp_path / "study", jobs=1, **world, **SMALL)
    result = found.result
    assert isinstance(result, InfiniteResult)
    novels = result.novels
    assert novels is not None
    read = {one.reader for one in novels.readings}
    assert {Reader(kind, 8) for kind in LABELS} <= read
    # Every rate was tried; what is reported is one of each.
    assert {(one.kind, one.lr) for one in novels.tried} == {
        (kind, rate) for kind in get_args(LearnerName) for rate in (1e-4, 1e-3)
    }
    assert all(np.isfinite(one.nats) for one in novels.tried)
    assert len(novels.readings) == len(read)
    few, upper = Reader("sticky", 8, vectors=8), Reader("sticky", 8, layers="upper third")
    assert {few, upper, Reader("transformer_xl", 16)} <= read
    for reading in novels.readings:
        assert len(reading.losses["own"]) == 4
        sums = sum(np.array(reading.sums[part]) for part in CLASSES)
        np.testing.assert_allclose(sums / 32, reading.losses["own"], rtol=1e-6)
    assert set(novels.reading("sticky").losses) == {"own", "none", "other"}
    # As large a state, whatever is kept in it.
    assert novels.reading("sticky").bytes == novels.reading("transformer_xl").bytes
    again = from_plain(InfiniteResult, to_plain(result))
    assert [section.title for section in page(again)][1:] == [
        "1 · Window alone, memories, whole context",
        "2 · Whose state?",
        "3 · Which tokens?",
        "4 · What limits it",
        "5 · What learns",
    ]
    parts = [part for one in page(again) for part in one.parts]
    tables = {part.name: part for part in parts if isinstance(part, Table)}
    assert len(tables["Learning rates of what learns"].rows) == len(get_args(LearnerName))
    pasts = tables["Own, no and another's state"].rows
    assert {row[0] for row in pasts} == {LABELS[k] for k in LABELS if k[:5] in ("added", "stick")}


def test_what_learns_learns_on_a_model_of_half_the_bits(
    world: dict[str, Any], tmp_path: Path
) -> None:
    options = SMALL | {"learners": ("added_sticky", "lora"), "learning_rates": (), "windows": (8,)}
    found = ms.study(
        "infinite", "quick", out=tmp_path / "study", jobs=1, dtype="bfloat16", **world, **options
    )
    novels = found.result.novels
    assert novels.dtype == "bfloat16"
    floor = novels.reading("floor").nats()
    for kind in ("added_sticky", "lora"):
        learnt = novels.reading(kind).nats()
        assert np.isfinite(learnt).all()
        assert (learnt != floor).any()
    assert "computes in bfloat16" in found.page.read_text()


def test_every_learner_that_can_be_named_is_known() -> None:
    names = get_args(LearnerName)
    assert {*names} == {*DENSITIES, "lora"} == {*LEARNT}
    known = learners(names, 128, 256, 30)
    assert known["added_gate"].tbptt == 2
    assert known["added_everywhere"].options["layers"] is None
    for name, one in known.items():
        kind = TransformerXLOptions if name == "lora" else InfiniteOptions
        options = kind.make(**one.options)
        # What is carried and what is in the signal are as many vectors as others have.
        assert options.mem_len == 64
        assert name == "lora" or options.mem_len + options.basis == 256


def test_words_return_only_after_they_left_the_window(world: dict[str, Any]) -> None:
    given = passages(InfiniteStudy.preset(**world, **SMALL))
    assert given.tokens.shape == (4, 65)
    classes = given.classes(8)
    assert classes.shape == (4, 32)
    for row, (words, rare) in enumerate(zip(given.spans, given.rare, strict=True)):
        for at in range(33, 65):
            number, kind = words[at], [*CLASSES][int(classes[row, at - 33])]
            before = [
                n for n in range(at) if words[n] == number and words[n:at].count(number) < at - n
            ]
            assert (kind == "other") is not rare[at]
            if kind == "returning":
                assert before
                assert max(before) < at - 8


def made(floor: float, sticky: float, cache: float, ceiling: float) -> InfiniteResult:
    """A result in which every passage has these losses, give or take."""

    def losses(kind: str, mean: float, more: dict[Past, float] | None = None) -> NovelLosses:
        each = tuple(mean + 0.01 * n for n in range(4))
        return NovelLosses(
            reader=Reader(kind, 8),
            losses={"own": each, **{past: (value,) * 4 for past, value in (more or {}).items()}},
            sums=dict.fromkeys(CLASSES, tuple(10 * one for one in each)),
            tokens=dict.fromkeys(CLASSES, (10,) * 4),
            words=(20,) * 4,
            bytes=100,
        )

    readings = (
        losses("ceiling", ceiling),
        losses("floor", floor),
        losses("sticky", sticky, {"none": floor, "other": floor + 0.5}),
        losses("transformer_xl", cache),
    )
    novels = Novels(("one", "two"), 64, 16, (8,), 0, readings)
    return InfiniteResult(64, 8, 16, 64, novels=novels)


def test_the_finding_says_the_share_and_whether_the_goal_is_met() -> None:
    *sentences, figure = page(made(3.5, 3.3, 3.26, 3.1))[0].parts
    assert isinstance(figure, Figure)
    told = " ".join(map(str, sentences))
    assert "the sticky ∞-former saves 50% (50% to 50%) of that, which meets the goal of 30%" in told
    assert "Transformer-XL's cache of as many vectors saves 60%" in told
    assert "the ∞-former is 0.040 nats per token worse" in told
    assert "another book's state" in told
    few = " ".join(map(str, page(made(3.5, 3.45, 3.45, 3.1))[0].parts[:-1]))
    assert "does not surely meet the goal" in few
    assert "cannot be told" in few
    # Surely worse, but by less than a twentieth of what there is to gain.
    near = " ".join(map(str, page(made(3.5, 3.27, 3.26, 3.1))[0].parts[:-1]))
    assert "which of the two is better cannot be told (0.010 nats per token apart)" in near
    none = str(page(made(3.11, 3.1, 3.1, 3.1))[0].parts[0])
    assert "Nothing can be said of memories" in none


def test_shares_and_perplexity_are_in_the_table() -> None:
    tables = [part for part in page(made(3.5, 3.3, 3.26, 3.1))[1].parts if isinstance(part, Table)]
    rows = {str(row[0]): row for row in tables[1].rows}
    assert str(rows["window alone"][6]).startswith("0%")
    assert str(rows["whole context"][6]).startswith("100%")
    per_word = float(str(rows["whole context"][3]))
    assert float(str(rows["whole context"][4])) == pytest.approx(np.exp(per_word))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model": "somewhere"}, "model and source go together"),
        ({"windows": (7,)}, "must be even"),
        ({"windows": (128,), "context": 100}, "a multiple of twice the largest"),
        ({"vectors": 8}, "at least half a window"),
        ({"dtype": "bfloat16"}, "dtype is for a model that is given"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_loaded(
    options: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        InfiniteStudy.preset(**options)


def test_novels_that_are_not_there_are_named(world: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no single text that begins with 'ulysses'"):
        ms.study("infinite", "quick", out=tmp_path / "study", held_out=("ulysses", "one"), **world)
