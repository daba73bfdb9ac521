"""Parts of documents, and attention by part and by word: plain numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mnemoscope.chat.attention import by_part, by_word
from mnemoscope.chat.document import MOST_PARTS, chat_document, read_chat_document
from mnemoscope.core.errors import UserError


def test_parts_are_lines_within_sections() -> None:
    found = chat_document("tea", "Tea is a leaf.\n\nIt is green.\n---\nIt grows on hills.\n")
    assert [one.label for one in found.parts] == [
        "section 1, line 1",
        "section 1, line 3",
        "section 2, line 5",
    ]
    assert [one.section for one in found.parts] == [0, 0, 1]
    assert found.parts[0].text == "Tea is a leaf.\n\n"


def test_a_single_line_is_parted_by_sentences() -> None:
    found = chat_document("tea", "Tea is a leaf. It costs 1.50 a cup! Who knows?")
    assert [one.label for one in found.parts] == ["sentence 1", "sentence 2", "sentence 3"]
    assert "".join(one.text for one in found.parts) == (
        "Tea is a leaf. It costs 1.50 a cup! Who knows?"
    )


def test_a_long_document_has_few_parts_and_loses_nothing() -> None:
    text = "".join(f"line {number} of many\n" for number in range(1000))
    found = chat_document("long", text)
    assert MOST_PARTS / 2 < len(found.parts) <= MOST_PARTS
    assert "".join(one.text for one in found.parts) == text
    assert found.parts[0].label.startswith("lines 1–")


@pytest.mark.parametrize("text", ["", " \n\n", "---\n---\n"])
def test_an_empty_document_is_no_document_to_chat_about(text: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="empty"):
        chat_document("nothing", text)
    (tmp_path / "nothing.txt").write_text(text)
    with pytest.raises(UserError, match="empty"):
        read_chat_document(tmp_path / "nothing.txt")


def test_attention_is_added_up_by_part_without_the_sinks() -> None:
    rows = [np.array([0.5, 0.2, 0.2, 0.1]), np.array([0.4, 0.1, 0.1, 0.1, 0.3])]
    parts = np.array([0, 0, 1, -1, -1])
    np.testing.assert_allclose(by_part(rows, parts, 2, 0), [[0.7, 0.2], [0.5, 0.1]])
    np.testing.assert_allclose(by_part(rows, parts, 2, 1), [[0.2, 0.2], [0.1, 0.1]])


def test_a_word_has_the_mean_of_its_tokens() -> None:
    pieces = [" te", "a", " gro", "ws"]
    shares = np.array([[0.1, 0.3], [0.3, 0.1], [0.0, 0.5], [0.0, 0.3]])

    def text(ids: list[int]) -> str:
        return "".join(pieces[one] for one in ids).strip()

    tea, grows = by_word([0, 1, 2, 3], text, shares, ["one", "two"])  # type: ignore[arg-type]
    assert (tea.word, grows.word, grows.part) == ("tea", "grows", "two")
    np.testing.assert_allclose([tea.document, tea.share], [0.4, 0.2])
    np.testing.assert_allclose([grows.document, grows.share], [0.4, 0.4])
