"""One to many: a word, and its letters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mnemoscope.core.errors import UserError
from mnemoscope.data.batch import NO_QUESTION, Batch, Task
from mnemoscope.data.spelling import Spelling


def of_text(folder: Path, text: str, **options: int) -> Spelling:
    (folder / "words.txt").write_text(text)
    return Spelling(source=str(folder / "words.txt"), **options)


def test_the_drawn_example_of_spelling(
    tmp_path: Path,
    drawing: Callable[[type[Task]], list[str]],
    as_drawn: Callable[[Batch], list[str]],
) -> None:
    task = of_text(tmp_path, "An name, a MAN!", fewest_letters=2)
    assert task.lexicon == ("an", "man", "name")
    (man,) = (
        batch
        for batch in (task.batch(step, 1, seed=0, split="valid") for step in range(3))
        if batch.tokens[0, 0] == 1
    )
    assert as_drawn(man) == drawing(Spelling)


def test_the_commonest_words_take_part(tmp_path: Path) -> None:
    task = of_text(tmp_path, "the cat the dog_7 of9 cat the eel bee ant", most_words=3)
    assert task.lexicon == ("ant", "cat", "the")  # of equally common ones the first by alphabet


def test_what_is_asked_spells_the_word_that_is_read() -> None:
    task = Spelling()
    assert len(task.lexicon) == 200
    for split in ("train", "valid"):
        batch = task.batch(3, 50, seed=1, split=split)
        assert (batch.tokens[:, 1:] == task.vocab - 1).all()
        for word, targets in zip(batch.tokens[:, 0], batch.targets, strict=True):
            *said, end = targets[targets != NO_QUESTION]
            assert end == task.outputs - 1
            assert task.letters.decode(np.array(said)) == task.lexicon[word]
    asked = [task.batch(step, 50, seed=0, split="valid").tokens[:, 0] for step in range(4)]
    assert sorted(np.concatenate(asked).tolist()) == list(range(200))


def test_majority_is_the_best_that_can_be_said_without_the_word(tmp_path: Path) -> None:
    task = of_text(tmp_path, "ban bad bid", most_words=3)
    # b, a, then n and d twice, then the end: 3 + 2 + 2 + 3 of 12.
    assert task.majority == pytest.approx(10 / 12)
    assert 0.1 < Spelling().majority < 0.3


def test_mistakes_in_spelling_are_explained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has 1 words of 3 letters or more"):
        _ = of_text(tmp_path, "the 123 of").vocab
    assert Spelling(most_words=50).digest != Spelling(most_words=51).digest
