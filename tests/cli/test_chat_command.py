"""``mnemoscope chat``: questions by --say and through a pipe, commands, and mistakes."""

from __future__ import annotations

import io
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from brought import SENTENCES
from command import ended, refused
from hf_families import save_whole

import mnemoscope as ms

run = partial(ended, "chat")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    save_whole(folder / "model", SENTENCES * 9, 300, initializer_range=0.3)
    (folder / "rain.txt").write_text("The old dog hears the rain.\nA cat waits.\n" * 6)
    (folder / "evil.txt").write_text("The \x1b[31mking\x1b]0;x\x07 sleeps [bold]here[/bold].\n")
    (folder / "empty.txt").write_text(" \n")
    ms.train("dialogue", "gru", folder / "made-up", steps=2, batch=2, width=16)
    ms.train("copy", "gru", folder / "copy", steps=2, batch=2, width=8)
    return folder


def test_questions_and_commands_in_turn(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = ["Who waits?", "/blank", "/again", f"/document {home / 'evil.txt'}", "/again"]
    said += ["/forget", "/again", "/help", "/quit", "never said"]
    words = [word for one in said for word in ("--say", one)]
    given = ["--model", str(home / "model"), "--document", str(home / "rain.txt"), *words]
    assert run(*given, "--window", "32", "--vectors", "32", "--length", "4") == 0
    out = capsys.readouterr().out
    assert "rain.txt: " in out
    assert " segments of at most 16" in out
    assert "bytes; " in out
    assert "nats per token with what was read before its window" in out
    assert out.count("of attention on the document: ") == 2
    assert "without document  " in out
    assert "evil.txt: " in out
    assert "/document FILE" in out
    assert "never said" not in out
    assert "\x1b" not in out


def test_a_pipe_is_read_line_by_line_and_a_made_up_run_brings_a_document(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("salt?\n\n/again\n"))
    assert run("--model", str(home / "made-up")) == 0
    out = capsys.readouterr().out
    assert "it guesses" in out
    assert "made up: " in out
    assert "in which all that was read is mixed" in out
    assert out.count("nobody can tell where a word is from") == 2


def test_mistakes_are_one_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, text = str(home / "model"), str(home / "rain.txt")
    for words, said in (
        (["--model", model], "Give --document"),
        (["--model", model, "--document", str(home / "no.txt")], "there is no file"),
        (["--model", model, "--document", str(home / "empty.txt")], "is empty"),
        (["--model", str(home / "copy"), "--document", text], "task copy"),
        (["--model", "runs/nothing", "--document", text], "there is no runs/nothing"),
        (["--model", model, "--document", text, "--memory", "gru"], "known: infinite"),
        (["--model", model, "--document", text, "--temperature", "-1"], "--temperature"),
        (["--model", model, "--document", text, "--say", "/forgt"], "/forget"),
        (["--model", model, "--document", text, "--say", "/document"], "which document"),
        (["--model", model, "--document", text, "--say", "/again"], "nothing has been asked"),
    ):
        assert said in refused(capsys, "chat", *words)
