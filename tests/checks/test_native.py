"""Our own memories keep every promise, bare and attached, by name and as objects."""

from __future__ import annotations

from pathlib import Path

import hf_families
import pytest

import mnemoscope as ms
from mnemoscope.checks.examination import Examination
from mnemoscope.checks.opened import open_subject
from mnemoscope.checks.promises import PROMISES
from mnemoscope.core.registry import MEMORIES

# A fresh process imports torch: it is asked for once below, and for all in test_fresh_process.
HERE = [name for name in PROMISES if name != "saved"]


@pytest.mark.parametrize("memory", MEMORIES)
def test_every_memory_keeps_every_promise(memory: str) -> None:
    result = ms.check(memory, only=HERE, layers=2, width=16)
    assert result.kept, result.text()


def test_a_state_goes_on_in_a_fresh_process() -> None:
    cell = ms.check("gru", only=["saved"], width=8).rows[0].cells[0]
    assert (cell.verdict, cell.note) == ("kept", "in a fresh process")


def test_an_attached_long_term_memory_keeps_its_promises() -> None:
    memory = ms.attach(hf_families.build("llama"), "infinite", **hf_families.LONG_TERM)
    few = [name for name in HERE if name != "minimal"]  # which reads it hundreds of times
    result = ms.check(hf_families.speaking(memory), only=few)
    assert result.kept, result.text()


def test_an_attached_document_memory_keeps_its_promises() -> None:
    memory = ms.attach(hf_families.build("llama"), "documents", layer=1, entries=4)
    result = ms.check(memory)
    assert result.kept, result.text()


def test_a_folder_of_transformers_is_checked_and_its_page_can_be_drawn_again(
    tmp_path: Path,
) -> None:
    hf_families.save_whole(tmp_path / "model")
    result = ms.check(tmp_path / "model", tmp_path / "out")
    assert result.kept, result.text()
    again = ms.load(tmp_path / "out")
    assert again.rows == result.rows
    page = ms.show(tmp_path / "out").page.read_text()
    assert "keeps all of the" in page


def test_tolerances_follow_precision_and_are_far_below_a_slip() -> None:
    model = ms.build("transformer", vocab=20, width=16, heads=2).eval()
    single = Examination(open_subject(model)).tolerance
    double = Examination(open_subject(model.double())).tolerance
    assert 0 < double < 1e-9 < single < 1e-3


def test_declared_bytes_are_held_against_measured_ones() -> None:
    bytes_of = ms.stream("gru", width=16).bytes_after(24)
    assert ms.check("gru", only=["bytes"], width=16, declared=bytes_of).kept
    (cell,) = ms.check("gru", only=["bytes"], width=16, declared=2 * bytes_of).rows[0].cells
    assert cell.note.endswith(f"declared are {2 * bytes_of:,}")
