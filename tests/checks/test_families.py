"""Families of transformers: known-good ones keep every promise, known-bad ones are caught."""

from __future__ import annotations

import math
from importlib.metadata import version
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")

from mnemoscope import shipped
from mnemoscope.checks import families
from mnemoscope.checks.result import Cell, CheckResult, Row
from mnemoscope.checks.survey import examine_family, survey
from mnemoscope.huggingface.quiet import quiet

GOOD = ("gpt2", "gpt_neox", "llama", "opt", "qwen2")


def examined(family: str) -> Row:
    with quiet():
        return examine_family(family)


def shown(snippet: str) -> float:
    """What the lines of a cell print, as a share of the range."""
    printed = told(snippet)
    return float(printed[0] / printed[2])


def told(snippet: str) -> list[Any]:
    """What the lines of a cell print: they are run as they are."""
    printed: list[Any] = []
    grad = torch.is_grad_enabled()
    try:
        with quiet():
            exec(snippet, {"print": lambda *words: printed.extend(words)})
    finally:
        torch.set_grad_enabled(grad)
    return printed


@pytest.mark.parametrize("family", GOOD)
def test_a_known_good_family_keeps_everything_and_absolute_positions_are_a_limit(
    family: str,
) -> None:
    row = examined(family)
    assert not row.bad, [(cell.promise, cell.said) for cell in row.bad]
    limits = [cell.promise for cell in row.cells if cell.verdict == "limit"]
    assert limits == (["left padded"] if family == "gpt2" else [])
    reasons = {cell.note for cell in row.cells if cell.verdict == "not asked"}
    assert all(reasons)


@pytest.mark.parametrize("family", ["mamba", "falcon_mamba"])
def test_a_continuation_by_several_tokens_that_forgets_is_caught_and_reproduced(
    family: str,
) -> None:
    row = examined(family)
    assert {cell.promise for cell in row.bad} == {"pieces", "several after"}
    assert row.cell("one by one").verdict == "kept"
    cell = row.cell("several after")
    assert cell.tolerance is not None
    assert shown(cell.snippet) > cell.tolerance


def test_a_state_that_hides_in_the_module_is_caught_and_reproduced() -> None:
    row = examined("recurrent_gemma")
    assert row.cell("state used").note == "it hands out no state"
    cell = row.cell("nothing hidden")
    assert cell.verdict == "broken"
    assert cell.tolerance is not None
    assert shown(cell.snippet) > cell.tolerance
    assert row.cell("pieces").verdict == "not asked"


def test_an_idle_tensor_is_named_and_its_lines_show_that_nobody_reads_it() -> None:
    cell = examined("xlstm").cell("minimal")
    assert (cell.verdict, cell.where) == ("broken", "cache.seqlen_offset")
    assert shown(cell.snippet) == 0


def test_a_tensor_that_waits_for_its_chunk_and_one_under_two_names_are_not_idle() -> None:
    cell = examined("deepseek_v4").cell("minimal")
    assert cell.verdict == "kept", cell.note


def shows(cell: Cell) -> bool:
    """Whether the lines of a red cell show what it says."""
    if cell.verdict == "error":
        with pytest.raises(RuntimeError):
            told(cell.snippet)
        return True
    if cell.promise == "state used":
        return told(cell.snippet) == [[]]
    if cell.difference == math.inf:
        found, _, wanted = told(cell.snippet)
        return bool(found != wanted)
    share = shown(cell.snippet)
    return share == 0 if cell.tolerance is None else share > cell.tolerance


def test_the_lines_of_every_red_cell_of_the_shipped_result_show_it() -> None:
    shipped_with: CheckResult = shipped.load("check").result
    theirs = shipped_with.versions["transformers"]
    if theirs != version("transformers"):
        pytest.skip(f"the result is of transformers {theirs}")
    red = [(row.name, cell) for row in shipped_with.rows for cell in row.bad]
    assert len(red) > 50
    assert [(name, cell.promise) for name, cell in red if not shows(cell)] == []


def test_the_lines_of_a_limit_show_it() -> None:
    cell = examined("gpt2").cell("left padded")
    assert cell.difference is not None
    assert shown(cell.snippet) > 0.1


def test_each_family_has_a_process_and_one_that_cannot_be_built_a_reason() -> None:
    seen: list[str] = []
    result = survey(["gpt2", "blt"], jobs=2, done=lambda row: seen.append(row.name))
    assert sorted(seen) == ["blt", "gpt2"]
    good, missing = result.rows
    assert good.cell("saved").note == "in a fresh process"
    assert good.cell("saved").verdict == "kept"
    assert missing.missing == families.CANNOT["blt"]
    assert not result.kept
    assert result.versions["transformers"][0].isdigit()
    assert "not built" in result.text()


def test_a_process_that_takes_too_long_is_a_row() -> None:
    (row,) = survey(["gpt2"], patience=0.0).rows
    assert "took longer than 0 seconds" in row.missing


def test_the_table_names_families_and_promises_that_exist() -> None:
    known = families.names()
    assert {*families.OWN, *families.CANNOT, *families.EXPECTED} <= set(known)
