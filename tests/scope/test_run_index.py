"""The folder of runs as the page sees it, also while something is being written there."""

from __future__ import annotations

import gzip
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mnemoscope.core.errors import UserError
from mnemoscope.core.files import held
from mnemoscope.scope import records, run_index, texts
from mnemoscope.scope.library import Library, curves
from mnemoscope.studies.engines.claims import Claim, Holder
from mnemoscope.training.config import RunConfig


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A study that is running: one run examined, one on its way."""
    folder = tmp_path / "lag-quick"
    config = RunConfig.of("copy", "gru", {"steps": 50}).to_yaml()
    for name in ("a", "b"):
        (folder / "runs" / name).mkdir(parents=True)
        (folder / "runs" / name / "config.yaml").write_text(config)
    (folder / "study.yaml").write_text("study: lag\n")
    (folder / "runs" / "a" / "examined.json").write_text("{}")
    (folder / "runs" / "b" / "metrics.jsonl").write_text(
        '{"step": 10, "loss": 2.0}\n{"step": 20, "loss": 1.5}\n{"step": 3'
    )
    return folder


def test_a_running_study_says_how_far_it_is(study: Path) -> None:
    library = Library(study.parent)
    found = library.study("lag-quick")
    assert (found["begun"], found["done"], found["finished"]) == (2, 1, False)
    assert found["running"]
    assert found["active"] == [{"id": "lag-quick/runs/b", "step": 20, "steps": 50}]
    assert [run["id"] for run in found["runs"]] == ["lag-quick/runs/a", "lag-quick/runs/b"]
    before = library.news()
    with open(study / "runs" / "b" / "metrics.jsonl", "a") as file:
        file.write('0}\n{"step": 40, "loss": 1.0}\n')
    assert library.news() != before
    assert library.news()["studies"][0]["active"][0]["step"] == 40


def test_a_running_study_says_who_trains_what_and_since_when(study: Path) -> None:
    holder = replace(Holder.here(), host="far-away", process=7, since="2026-01-02T03:04:05+00:00")
    claims = study / "runs" / ".claims"
    with Claim(claims, "b", holder):
        (active,) = Library(study.parent).study("lag-quick")["active"]
        assert active["by"] == "far-away, process 7"
        assert active["since"] == "2026-01-02T03:04:05+00:00"
    (active,) = Library(study.parent).study("lag-quick")["active"]
    assert "by" not in active
    (claims / "b.2").write_bytes(b"\xff" * 100)  # whatever lies there
    (active,) = Library(study.parent).study("lag-quick")["active"]
    assert active["by"] == "?, process 0"


def test_a_study_nobody_has_touched_for_a_while_has_stopped(study: Path) -> None:
    old = time.time() - 2 * run_index.RECENT
    for path in study.rglob("*"):
        os.utime(path, (old, old))
    found = Library(study.parent).study("lag-quick")
    assert not found["running"]
    assert found["active"] == []


@pytest.mark.skipif(not run_index.LOCKS.is_file(), reason="this system does not list what is held")
def test_a_study_that_is_held_runs_even_when_it_writes_nothing(study: Path) -> None:
    old = time.time() - 2 * run_index.RECENT
    for path in study.rglob("*"):
        os.utime(path, (old, old))
    library = Library(study.parent)
    with held(study, "running"):
        assert library.study("lag-quick")["running"]
        # To look is not to hold.
        assert library.news()["studies"][0]["running"]
    assert not library.study("lag-quick")["running"]


def test_the_folder_may_be_a_study_itself(study: Path) -> None:
    library = Library(study)
    assert [one["id"] for one in library.all()["studies"]] == ["."]
    assert [run["id"] for run in library.study(".")["runs"]] == ["runs/a", "runs/b"]
    assert library.study(".")["active"][0]["id"] == "runs/b"


def test_curves_leave_out_what_is_no_number(study: Path) -> None:
    found = Library(study.parent).run("lag-quick/runs/b")["curves"]
    assert found == {"loss": [[10, 2.0], [20, 1.5]]}
    odd: list[dict[str, Any]] = [
        {"step": 1, "loss": float("inf")},
        {"step": 2, "loss": None},
        {"step": 3, "loss": 1},
    ]
    assert curves(odd) == {"loss": [[3, 1.0]]}
    many = [{"step": step, "loss": 1.0} for step in range(5000)]
    assert len(curves(many)["loss"]) <= 600


def test_odd_files_break_nothing(tmp_path: Path) -> None:
    for name, content in {
        "empty": "",
        "list": "[1, 2]",
        "broken": "{",
        "deep": "[" * 5000,
        "strange": "task: 3\nmodel: [a]\ntraining: {steps: many}",
        "huge": "a: " + "x" * records.MOST_SETTINGS,
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(content)
        (tmp_path / name / "metrics.jsonl").write_text('nonsense\n{"step": "one"}\n[1]\n\xff')
    runs = Library(tmp_path).all()["runs"]
    assert len(runs) == 6
    assert all(run["task"] in ("?", "3") and not run["openable"] for run in runs)
    json.dumps(runs)


def test_links_are_not_followed(tmp_path: Path) -> None:
    inner = tmp_path / "runs"
    (inner / "a").mkdir(parents=True)
    (inner / "a" / "config.yaml").write_text("task: {name: copy}")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "config.yaml").write_text("task: {name: secret}")
    (inner / "out").symlink_to(tmp_path / "outside")
    (inner / "a" / "round").symlink_to(inner)
    assert [item.name for item in run_index.scan(inner).items] == ["a"]


def test_passages_are_cut_from_the_start_of_a_line(tmp_path: Path) -> None:
    lines = "".join(f"line {number}\r\n" for number in range(1000))
    (tmp_path / "a.txt").write_text(lines, newline="")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(lines.encode()))
    assert texts.catalogue(tmp_path) == ["a.txt", "b.txt.gz"]
    for name in ("a.txt", "b.txt.gz"):
        found = texts.passage(tmp_path, name, 0.5, 100)
        assert found["text"].startswith("line 5")
        assert "\r" not in found["text"]
        assert len(found["text"]) == 100
        assert texts.passage(tmp_path, name, 1.0, 100)["text"].endswith("line 999\n")
    assert texts.passage(tmp_path, "a.txt", 0, 5)["text"] == "line "


def test_what_is_no_text_is_explained(tmp_path: Path) -> None:
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"a" * 999)[:20])
    (tmp_path / "zeros.txt").write_bytes(b"a\0b")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    for name in ("cut.gz", "zeros.txt", "nothing.txt", "cut.exe"):
        with pytest.raises(UserError):
            texts.passage(tmp_path, name, 0, 10)
    assert texts.passage(tmp_path, "latin.txt", 0, 10)["text"] == "caf\ufffd"
    with pytest.raises(UserError):
        texts.passage(None, "a.txt", 0, 10)


def test_a_small_file_that_holds_a_great_deal_is_read_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "MOST_BYTES", 1000)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"a" * 10_000_000))
    assert texts.passage(tmp_path, "bomb.gz", 0, 10)["characters"] == 1000
