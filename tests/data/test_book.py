"""Many to one: passages, and the document they are from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mnemoscope.core.errors import UserError
from mnemoscope.data.batch import NO_QUESTION, Task
from mnemoscope.data.book import Book


@pytest.fixture
def shelf(tmp_path: Path) -> str:
    """Four documents, each of letters of its own; the shortest is the third by name."""
    for number, name in enumerate(("a", "b", "c", "d")):
        text = "".join(
            chr(ord("a") + 6 * number + i * i % 6) for i in range(200 - 50 * (name == "c"))
        )
        (tmp_path / f"{name}.txt").write_text(text)
    return str(tmp_path)


def test_the_drawn_example_of_book(
    tmp_path: Path, drawing: Callable[[type[Task]], list[str]]
) -> None:
    (tmp_path / "one.txt").write_text("abababab")
    (tmp_path / "two.txt").write_text("memorymemory")
    task = Book(source=str(tmp_path), unit="characters", length=4, held_out=0.5)
    assert (task.vocab, task.outputs, task.names) == (7, 2, ("one", "two"))
    batches = (task.batch(step, 1, seed=0) for step in range(40))
    letters = task.vocabularies["vocabulary.json"]
    drawn = {
        (
            " ".join(letters.decode(batch.tokens[0])),
            " ".join("." if t == NO_QUESTION else str(t) for t in batch.targets[0].tolist()),
        )
        for batch in batches
    }
    assert tuple(drawing(Book)) in drawn


@pytest.mark.parametrize("unit", ["bytes", "characters", "bpe"])
def test_a_passage_is_of_the_part_and_the_document_that_it_says(shelf: str, unit: str) -> None:
    task = Book.make(source=shelf, unit=unit, length=8, vocabulary_size=260)
    letters = task.vocabularies["vocabulary.json"]
    texts = [(Path(shelf) / f"{name}.txt").read_text() for name in task.names]
    for split in ("train", "valid"):
        for step in range(4):
            batch = task.batch(step, 6, seed=step, split=split)
            assert (batch.targets[:, :-1] == NO_QUESTION).all()
            for row, label in zip(batch.tokens, batch.targets[:, -1], strict=True):
                cut = round(len(texts[label]) * 0.8)
                part = texts[label][:cut] if split == "train" else texts[label][cut:]
                assert letters.decode(row) in part


def test_the_longest_take_part_and_are_asked_equally_often(shelf: str) -> None:
    task = Book(source=shelf, books=3, length=8, unit="bytes")
    assert task.names == ("a", "b", "d")
    assert task.majority == pytest.approx(1 / 3)
    valid = np.concatenate(
        [task.batch(s, 5, seed=s, split="valid").targets[:, -1] for s in range(6)]
    )
    assert Counter(valid.tolist()) == {0: 10, 1: 10, 2: 10}
    drawn = task.batch(0, 3000, seed=0).targets[:, -1]
    # Five standard deviations of a binomial count with n = 3000, p = 1/3.
    assert np.abs(np.bincount(drawn) - 1000).max() < 5 * np.sqrt(3000 * 2 / 9)


def test_validation_is_the_same_for_every_seed() -> None:
    task = Book()
    one, two = (task.batch(1, 32, seed=seed, split="valid") for seed in (0, 1))
    assert np.array_equal(one.tokens, two.tokens)
    assert len(np.unique(one.tokens, axis=0)) == 32


def test_a_book_that_changed_has_another_digest(shelf: str) -> None:
    before = Book(source=shelf, length=8, unit="bytes").digest
    path = Path(shelf) / "b.txt"
    path.write_text(path.read_text().replace("g", "x"))
    assert Book(source=shelf, length=9, unit="bytes").digest != before


def test_mistakes_in_book_are_explained(shelf: str) -> None:
    with pytest.raises(UserError, match="is one document: give a folder of two or more"):
        _ = Book(source=f"{shelf}/a.txt").vocab
    with pytest.raises(UserError, match="a has 160 tokens to train on and 40 held out, too few"):
        _ = Book(source=shelf, unit="bytes", length=41).vocab
    with pytest.raises(UserError, match="at least 257 for bpe"):
        Book.make(vocabulary_size=100)
