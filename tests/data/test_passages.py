from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mnemoscope.core.errors import UserError
from mnemoscope.data.passages import Passages


def test_passages_are_pieces_of_the_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(chr(ord("a") + i % 26) for i in range(400)))
    task = Passages(source=str(tmp_path), length=10)
    for split in ("train", "valid"):
        text = task.vocabulary.decode(task.tokens(split))
        batch = task.batch(3, 8, seed=1, split=split)
        assert np.array_equal(batch.tokens[:, 1:], batch.targets[:, :-1])
        assert all(task.vocabulary.decode(row) in text for row in batch.tokens)


def test_the_drawn_example_of_passages(tmp_path: Path, drawing) -> None:
    (tmp_path / "a.txt").write_text("memorymemory")
    task = Passages(source=str(tmp_path), unit="characters", length=4, held_out=0.5)
    batches = (task.batch(step, 1, seed=0) for step in range(50))
    drawn = {
        tuple(" ".join(task.vocabulary.decode(row)) for row in (b.tokens[0], b.targets[0]))
        for b in batches
    }
    assert tuple(drawing(Passages)) in drawn


def test_validation_is_the_same_for_every_seed_and_spreads() -> None:
    task = Passages(length=64)
    one, two = (task.batch(0, 32, seed=s, split="valid").tokens for s in (0, 1))
    assert np.array_equal(one, two)
    assert len(np.unique(one, axis=0)) == 32


def test_a_text_too_short_for_passages_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("short text")
    with pytest.raises(UserError, match="too few for a passage of 256"):
        Passages(source=str(tmp_path)).batch(0, 2, seed=0)


def test_passages_have_no_rows_that_could_begin_anew() -> None:
    with pytest.raises(UserError, match="set length instead"):
        Passages.make(anew=100)
