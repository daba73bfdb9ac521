"""Conversations that cannot be read: one line on standard error, and nothing left behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command import refused
from dialogue_results import own_corpus


def talk(folder: Path, **changes: Any) -> Path:
    """A corpus that is whole but for one thing."""
    path = own_corpus(folder)
    content = json.loads(path.read_text())
    content["conversations"][0] |= changes.get("conversation", {})
    content["documents"] |= changes.get("documents", {})
    path.write_text(json.dumps(content))
    return path


TURN = {"speaker": "ann", "text": "where does it live?"}
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "an empty document": ({"documents": {"otter": []}}, "the document 'otter' is empty"),
    "an empty section": ({"documents": {"otter": ["wet", " "]}}, "section 1 of the document"),
    "no turns": ({"conversation": {"turns": []}}, "has no turns"),
    "an unknown speaker": (
        {"conversation": {"turns": [TURN | {"speaker": "zoe"}]}},
        "an unknown speaker 'zoe'; its speakers: ann, bob",
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("command", ["train", "study"])
def test_mistakes_in_conversations_are_one_line(
    command: str, case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes, said = CASES[case]
    path, out = talk(tmp_path, **changes), tmp_path / "out"
    words = {
        "train": ["train", "dialogue", "--memory", "gru"],
        "study": ["study", "dialogue", "--spoken", "0"],
    }[command]
    told = refused(capsys, *words, "--source", str(path), "--out", str(out))
    assert said in told
    assert "own.json" in told
    assert not out.exists()


@pytest.mark.parametrize("text", ["{", "", '{"documents": {}}', "[]"])
def test_broken_files_are_one_line(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "own.json"
    path.write_text(text)
    words = ("study", "dialogue", "--spoken", "0", "--source", str(path))
    assert "own.json" in refused(capsys, *words, "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_documents_that_all_fit_into_the_window_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = own_corpus(tmp_path)
    words = ("study", "dialogue", "--spoken", "0", "--window", "400", "--vectors", "400")
    told = refused(capsys, *words, "--source", str(path), "--out", str(tmp_path / "out"))
    assert "no document is longer than the window of 400 tokens" in told
    assert "make the window smaller or the documents longer" in told
    assert not (tmp_path / "out").exists()
