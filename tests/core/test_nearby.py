"""A path that leads nowhere is refused at once, with what lies nearby, and no hub is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from complaints import complaint

import mnemoscope as ms
from mnemoscope.core.nearby import refuse_missing
from mnemoscope.huggingface import loading


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("runs/copy-gru", "runs/copy-lstm", "mine/small", "home/models"):
        Path(name).mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("runs/copy-gro", "there is no runs/copy-gro; in runs, did you mean 'copy-gru'"),
        ("runs/zzz", "there is no runs/zzz; runs holds copy-gru, copy-lstm"),
        ("./x", "there is no ./x; the folder you are in holds home, mine, runs"),
        ("../no/such/place", "there is no ../no/such/place; .. holds"),
        ("mine/smal", "in mine, did you mean 'small'"),
        ("models/small", "the folder you are in holds home, mine, runs"),
        ("run/copy/gru", "in the folder you are in, did you mean 'runs'"),
        ("~/model", "home, did you mean 'models'"),
        (Path("x"), "there is no x"),
        (Path("/no/such/place"), "there is no /no/such/place; / holds"),
        ("./" + "x" * 5000, "(5002 characters)"),
        ("./nul\0", "there is no"),
    ],
)
def test_what_can_only_be_a_path_is_refused_with_what_is_nearby(
    name: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(loading, "_load", lambda name, auto: asked.append(name))
    for call in (refuse_missing, ms.load, ms.stream):
        assert said in str(complaint(lambda call=call: call(name)))  # type: ignore[misc]
    assert asked == []


def test_names_on_a_hub_and_what_is_there_pass() -> None:
    for name in (
        "gpt2",
        "EleutherAI/pythia-1b",
        "runs/copy-gru",
        "./mine",
        "~/models",
        Path("runs"),
    ):
        refuse_missing(name)


def test_a_long_folder_is_not_listed_whole() -> None:
    for number in range(30):
        Path(f"mine/{number:02d}").mkdir()
    said = str(complaint(lambda: refuse_missing("mine/zzz")))
    assert said.endswith("mine holds 00, 01, 02, 03, 04, 05, 06, 07 and 23 more")
