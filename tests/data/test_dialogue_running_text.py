"""Documents and texts in pieces: what is read before conversations are learnt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dialogue_results import own_corpus

from mnemoscope.core.errors import UserError
from mnemoscope.data.batch import NO_QUESTION
from mnemoscope.data.dialogue.task import Dialogue, _pieces


@pytest.fixture
def source(tmp_path: Path) -> str:
    return str(own_corpus(tmp_path))


@pytest.fixture
def texts(tmp_path: Path) -> str:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "one.txt").write_text("A walrus sings. " * 60)
    (tmp_path / "more" / "two.txt").write_text("Nobody heard it, naïve as it was. " * 60)
    return str(tmp_path / "more")


def rows_of(task: Dialogue, split: Any) -> list[list[int]]:
    found = task.batch(0, 200, seed=0, split=split)
    return [
        [*row.tolist(), int(last)]
        for row, last in zip(found.tokens, found.targets[:, -1], strict=True)
    ]


def test_pieces_follow_each_other_and_every_token_is_learnt(source: str, texts: str) -> None:
    task = Dialogue(source=source, vocabulary_size=300, piece=8, texts=texts)
    batch = task.batch(3, 5, seed=0)
    assert batch.tokens.shape == (5, 8)
    assert task.longest == 8
    assert np.array_equal(batch.targets[:, :-1], batch.tokens[:, 1:])
    assert (batch.targets != NO_QUESTION).all()
    assert batch.starts.all()
    # The same tokens mean the same as in conversations.
    talk = Dialogue(source=source, vocabulary_size=300)
    assert task.vocab == talk.vocab
    assert task.vocabularies["vocabulary.json"].size == talk.vocabularies["vocabulary.json"].size


def test_pieces_are_of_documents_to_train_on_and_of_the_texts(source: str, texts: str) -> None:
    def said(**options: Any) -> str:
        task = Dialogue(source=source, vocabulary_size=300, piece=8, **options)
        return " ".join(task.text_of(row) for row in rows_of(task, "train"))

    plain, more = said(), said(texts=texts)
    assert "§" in plain
    assert "walrus" in more.replace(" ", "")
    assert "walrus" not in plain.replace(" ", "")
    # Crane and viper are documents of the test.
    for name, there in (("otter", True), ("badger", True), ("crane", False), ("viper", False)):
        assert (name in plain.replace(" ", "")) == there, name
    assert "1>" not in plain


def test_pieces_held_out_are_not_learnt(source: str, texts: str) -> None:
    task = Dialogue(source=source, vocabulary_size=300, piece=8, texts=texts)
    found = _pieces(task)
    assert np.array_equal(found["valid"], found["test"])
    count = len(found["train"]) + len(found["valid"])
    assert len(found["valid"]) == count // 20
    held = {tuple(row) for row in found["valid"].tolist()}
    assert {tuple(row) for row in rows_of(task, "valid")} == held


def test_the_digest_is_of_the_pieces_too(source: str, texts: str) -> None:
    def task(**options: Any) -> Dialogue:
        return Dialogue(source=source, vocabulary_size=300, **options)

    digests = {task().digest, task(piece=8).digest, task(piece=8, texts=texts).digest}
    assert len(digests) == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"piece": 8}, "piece belongs to a source"),
        ({"source": "x", "texts": "y"}, "texts are read in pieces: give piece"),
    ],
)
def test_pieces_that_cannot_be_are_explained(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        Dialogue.make(**options)


def test_too_little_text_is_one_line(source: str, tmp_path: Path) -> None:
    task = Dialogue(source=source, vocabulary_size=300, piece=100)
    with pytest.raises(UserError, match=r"20 pieces of 100 need 2001; give more text"):
        task.batch(0, 2, seed=0)
    lost = Dialogue(source=source, vocabulary_size=300, piece=8, texts=str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match="there is no file or folder"):
        lost.batch(0, 2, seed=0)
