"""Texts of a file, by line or, where lines are broken to fit a page, by paragraph."""

from __future__ import annotations

import logging
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemoscope.core.texts import hard_wrapped, read_texts

LONG = (
    "It was a dark and stormy night, and the rain fell in torrents upon the roofs of the town. " * 4
)


def test_a_hard_wrapped_text_is_read_by_paragraph_and_that_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paragraphs = [LONG.strip(), "A short one.", LONG.replace("rain", "snow").strip()]
    file = tmp_path / "book.txt"
    file.write_text("\n\n".join(textwrap.fill(one, 70) for one in paragraphs))
    with caplog.at_level(logging.WARNING):
        assert read_texts(file) == paragraphs
    assert "is hard-wrapped: its 13 lines are read as 3 paragraphs" in caplog.text


@given(st.integers(50, 120), st.lists(st.integers(30, 400), min_size=4, max_size=20))
def test_any_wrapped_text_is_known_and_the_same_text_on_whole_lines_is_not(
    width: int, lengths: list[int]
) -> None:
    words = LONG.split()
    texts = [" ".join(words[number % len(words)] for number in range(at)) for at in lengths]
    assert hard_wrapped([textwrap.wrap(text, width) for text in texts])
    assert not hard_wrapped([[text] for text in texts])
    assert not hard_wrapped([texts])


def test_lines_that_are_texts_stay_texts(tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    verses = ["Tyger Tyger, burning bright,", "In the forests of the night;"]
    file.write_text("\n".join([*verses, "", *verses, "", "one line of its own"]))
    assert read_texts(file) == [*verses, *verses, "one line of its own"]
    file.write_text("the same line again and again and again and again\n" * 30)
    assert len(read_texts(file)) == 30
    file.write_text("\n\n")
    assert read_texts(file) == []
