"""``mnemoscope check``: text, JSON, page and exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mnemoscope as ms
from mnemoscope.cli import main

pytest.importorskip("transformers")


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(words)
    assert isinstance(left.value.code, int)
    return left.value.code


def test_kept_promises_give_zero_and_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("gru", "--width", "8", "--only", "pieces,left padded, ids,bytes")
    assert run("check", *words, "--out", str(tmp_path / "out")) == 0
    said = capsys.readouterr().out
    assert "✓ pieces" in said
    assert "· left padded, ids" in said
    page = (tmp_path / "out" / "report.html").read_text()
    assert "keeps all of the 2 promises" in page
    assert "mnemoscope check gru --width 8 --only" in page
    assert ms.load(tmp_path / "out").promises == ("pieces", "left padded, ids", "bytes")


def test_a_broken_promise_gives_one_and_json_says_which(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--all", "--family", "mamba", "--json", "--out", str(tmp_path / "out"))
    assert run("check", *words) == 1
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    broken = [cell for cell in row["cells"] if cell["verdict"] == "broken"]
    assert [cell["promise"] for cell in broken] == ["pieces", "several after"]
    assert "AutoConfig.for_model('mamba'" in broken[0]["snippet"]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "# mamba: pieces\n" in page
    assert "# mamba: several after\n" in page
    assert "<pre" in page
