"""``mnemoscope past``: a memory is trained on one text and weighed on others."""

from __future__ import annotations

import re
import shutil
import time
from functools import partial
from pathlib import Path

import pytest
from command import ended
from hf_families import save_whole

run = partial(ended, "past")
WORDS = "the kettle sang on the stove while rain ran down the dark window of the kitchen"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny model and two texts."""
    folder = tmp_path_factory.mktemp("home")
    save_whole(folder / "model", WORDS, 280, hidden_size=32, intermediate_size=32)
    (folder / "one.txt").write_text(f"{WORDS}. " * 12)
    (folder / "two.txt").write_text("rain on the dark window, " * 20)
    return folder


@pytest.mark.parametrize(
    "options",
    [["--basis", "8", "--steps", "3"], ["--basis", "8", "--steps", "2", "--learn", "all"]],
)
def test_an_infinite_memory_is_fitted_and_its_worth_shown(
    home: Path, tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    memory, text = str(tmp_path / "memory"), str(home / "one.txt")
    common = ["--model", str(home / "model"), "--text", text, "--out", memory, "--window", "8"]
    assert run("fit", *common, "--rows", "2", *options) == 0
    assert "steps, loss of the last" in capsys.readouterr().out
    assert run("worth", memory, "--text", text, "--text", str(home / "two.txt")) == 0
    said = capsys.readouterr().out
    assert re.search(r"another text +\d\.\d+   the own text saves [+-]\d", said)
    assert run("worth", memory, "--text", text, "--most", "40") == 0
    assert "there is one text only" in capsys.readouterr().out


def test_a_cache_needs_no_training(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    memory, text = str(tmp_path / "memory"), str(home / "one.txt")
    common = [
        "--model",
        str(home / "model"),
        "--text",
        text,
        "--out",
        memory,
        "--memory",
        "transformer_xl",
    ]
    assert run("fit", *common, "--window", "8", "--mem-len", "4") == 2
    assert "set learn to all, or steps to 0" in capsys.readouterr().err
    assert run("fit", *common, "--window", "8", "--mem-len", "4", "--steps", "0") == 0
    assert run("worth", memory, "--text", text) == 0
    assert "the own text saves" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--windw", "8"], "did you mean 'window'"),
        (["--text", "no.txt"], "there is no file no.txt"),
        (["--window", "1"], "greater than or equal to 2"),
        (["--window", "65"], "need 65 positions, but the model has 64"),
        (["--window", "8", "--layers", "0,2"], "layer 2 does not exist"),
        (["--window", "8", "--heads", "3"], "heads"),
        (["--window", "8", "--basis", "99999999"], "basis: input should be less"),
        (["--window", "8", "--steps", "-1"], "steps: input should be greater"),
        (["--window", "8", "--lr", "inf"], "lr: input should be a finite number"),
        (
            ["--memory", "transformer_xl", "--window", "8", "--mem-len", "4"],
            "a cache has no weights",
        ),
        (["--rows", "-1", "--window", "8"], "rows"),
        (["--rows", "0", "--window", "8"], "rows"),
    ],
)
def test_mistakes_about_infinite_memories_are_one_line(
    options: list[str],
    message: str,
    home: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bare = tmp_path / "model"  # without weights: what is refused first needs none
    shutil.copytree(home / "model", bare, ignore=shutil.ignore_patterns("*.safetensors"))
    common = ["--model", str(bare), "--out", str(tmp_path / "m")]
    assert run("fit", *common, "--text", str(home / "one.txt"), *options) == 2
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told
    assert not (tmp_path / "m").exists()
    assert run("worth", str(tmp_path), "--text", str(home / "one.txt")) == 2
    assert "there is no file" in capsys.readouterr().err


class Counting:
    """A tokenizer of letters that says how many it was given."""

    given = 0

    def encode(self, text: str) -> list[int]:
        self.given += len(text)
        return [ord(letter) % 64 for letter in text]


def test_no_more_of_a_text_is_tokenised_than_is_read() -> None:
    from mnemoscope.huggingface.infinite.streams import pieces_of
    from mnemoscope.huggingface.texts import first_ids

    text = "the kettle sang" * 100_000
    tokenizer = Counting()
    assert first_ids(tokenizer, text, 500) == first_ids(Counting(), text)[:500]
    assert tokenizer.given < 20_000
    tokenizer = Counting()
    pieces = pieces_of([text], tokenizer, rows=4, most=101)
    assert [len(piece) for piece in pieces] == [101] * 4
    assert tokenizer.given < 20_000
    start = len(text) // 4
    assert pieces[1].tolist() == first_ids(Counting(), text[start : start + 101])
    # A text is cut only where it is longer than a row's share; what is left of it stays apart.
    short = pieces_of([text[:900], text[:300]], Counting(), rows=2, most=900)
    assert [len(piece) for piece in short] == [600, 300, 300]
    assert [*short[0].tolist(), *short[1].tolist()] == first_ids(Counting(), text[:900])


def test_a_line_of_megabytes_is_answered_in_seconds(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long, memory = tmp_path / "long.txt", str(tmp_path / "memory")
    long.write_text(f"{WORDS} " * (16 * 2**20 // len(WORDS)))
    common = ["--model", str(home / "model"), "--text", str(long), "--out", memory]
    began = time.process_time()
    assert run("fit", *common, "--window", "8", "--basis", "8", "--steps", "2", "--rows", "2") == 0
    assert run("worth", memory, "--text", str(long), "--most", "500") == 0
    assert time.process_time() - began < 5
    assert run("worth", memory, "--text", str(long), "--most", "1") == 2
    assert "--most must be from 2 to" in capsys.readouterr().err
