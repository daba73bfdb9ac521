"""Folders of runs that hold anything at all: each bad run fails alone, and says why."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from page_requests import application, ask

from mnemoscope.scope import records, run_index, texts
from mnemoscope.scope.library import Library
from mnemoscope.scope.server import TELLS_HEIGHT
from mnemoscope.training.config import RunConfig

pytest.importorskip("fastapi")

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
SETTINGS: dict[str, str | bytes] = {
    "a date that is none": "a: 2024-13-45\n",
    "a number without end": "training: {steps: " + "9" * 5000 + "}\n",
    "steps that are none": "training: {steps: .nan}\n",
    "too many steps": "training: {steps: 1e400}\n",
    "half a character": 'task: {name: "\\ud800"}\nmodel: {name: "\\udfff"}\nstudy: "\\ud800"\n',
    "a name without end": "task: {name: " + "x" * 50_000 + "}\n",
    "a bomb": BOMB,
    "a tag": "a: !!python/object/apply:os.system [true]\n",
    "brackets": "[" * 50_000,
    "a list": "[1]\n",
    "nothing": "",
    "too much": "a: " + "x" * records.MOST_SETTINGS,
    "other letters": b"caf\xe9: 1\n",
    "code of somebody": "task: {name: copy}\nmodel: {name: 'os:system'}\n",
}
TOLD = {"a bomb", "a tag", "brackets", "a list", "nothing", "too much", "other letters"}
TOLD |= {"a number without end"}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A run, and a study with one run, nothing wrong with either."""
    folder = tmp_path / "runs"
    config = RunConfig.of("copy", "gru", {"steps": 50}).to_yaml()
    for name in ("good", "lag/runs/good"):
        (folder / name).mkdir(parents=True)
        (folder / name / "config.yaml").write_text(config)
        (folder / name / "metrics.jsonl").write_text('{"step": 20, "loss": 1.5}\n')
    (folder / "lag" / "study.yaml").write_text("study: lag\n")
    return folder


def put(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def look(folder: Path) -> dict[str, Any]:
    """All that a page can ask of a folder of runs; nothing of it may fail."""
    app = application(folder)
    answer = ask(app, "/api/run_index")
    assert answer.status == 200, answer.body
    found: dict[str, Any] = json.loads(answer.body)
    assert ask(app, "/api/progress").status == 200
    for kind, items in (("run", found["runs"]), ("study", found["studies"])):
        for one in items:
            said = ask(app, f"/api/{kind}", f"id={quote(one['id'])}".encode())
            assert said.status in (200, 400), (one, said.body)
            json.loads(said.body)
    return found


def of(found: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    return next(one for one in found[kind] if one["id"] == name)


@pytest.mark.parametrize("name", SETTINGS)
def test_bad_settings_spoil_their_own_run_only(name: str, runs: Path) -> None:
    put(runs / "bad" / "config.yaml", SETTINGS[name])
    put(runs / "worse" / "study.yaml", SETTINGS[name])
    put(runs / "worse" / "runs" / "bad" / "config.yaml", SETTINGS[name])
    put(runs / "worse" / "runs" / "bad" / "metrics.jsonl", '{"step": 1}\n')
    began = time.process_time()
    found = look(runs)
    assert time.process_time() - began < 5
    good = of(found, "runs", "good")
    assert (good["problem"], good["step"], good["steps"]) == (None, 20, 50)
    assert of(found, "studies", "lag")["problem"] is None
    for kind, one in (("runs", "bad"), ("runs", "worse/runs/bad"), ("studies", "worse")):
        problem = of(found, kind, one)["problem"]
        assert (problem is not None) == (name in TOLD), problem
        assert problem is None or ("\n" not in problem and str(runs) not in problem)
    assert not of(found, "runs", "bad")["openable"]


LOGS: dict[str, str | bytes] = {
    "a number without end": '{"step": 1}\n{"step": ' + "9" * 5000 + "}\n",
    "a large number": '{"step": ' + "9" * 4000 + "}\n",
    "true": '{"step": true, "loss": true}\n',
    "below zero": '{"step": -1, "loss": 1}\n',
    "brackets": "[" * 100_000 + "\n" + "[" * 3000 + "\n",
    "not finite": '{"step": 1, "loss": NaN}\n{"step": 2, "loss": 1e999}\n',
    "bytes": bytes(range(256)) * 50,
    "a line without end": '{"step": 1, "loss": "' + "x" * 10_000_000,
    "nothing": "",
}


@pytest.mark.parametrize("name", LOGS)
def test_a_bad_log_spoils_its_own_run_only(name: str, runs: Path) -> None:
    shutil.copytree(runs / "good", runs / "bad")
    put(runs / "bad" / "metrics.jsonl", LOGS[name])
    put(runs / "lag" / "runs" / "bad" / "config.yaml", "")
    put(runs / "lag" / "runs" / "bad" / "metrics.jsonl", LOGS[name])
    found = look(runs)
    assert of(found, "runs", "good")["step"] == 20
    assert of(found, "runs", "bad")["step"] in range(4)
    assert of(found, "runs", "good")["problem"] is None


@pytest.mark.parametrize("file", ["config.yaml", "metrics.jsonl", "vocabulary.json", "report.html"])
def test_a_file_for_the_page_that_is_none_is_not_waited_for(file: str, runs: Path) -> None:
    for name in ("pipe", "socket", "folder", "dangling", "circle"):
        shutil.copytree(runs / "good", runs / name)
        (runs / name / file).unlink(missing_ok=True)
    os.mkfifo(runs / "pipe" / file)
    (runs / "folder" / file).mkdir()
    (runs / "dangling" / file).symlink_to(runs / "nowhere")
    (runs / "circle" / file).symlink_to(runs / "circle" / file)
    here = os.getcwd()
    with socket.socket(socket.AF_UNIX) as door:
        os.chdir(runs / "socket")  # the name of a socket may not be long
        try:
            door.bind(file)
        finally:
            os.chdir(here)
        found = look(runs)
    assert of(found, "runs", "good")["step"] == 20
    if file == "metrics.jsonl":
        assert "not a regular file" in of(found, "runs", "pipe")["problem"]
        assert of(found, "runs", "dangling")["problem"] == "there is no file metrics.jsonl"
    app = application(runs)
    for name in ("pipe", "socket", "folder", "dangling", "circle"):
        assert ask(app, f"/files/{name}/report.html").status == 400


def test_a_name_of_other_letters_is_shown_and_explained(runs: Path) -> None:
    odd = os.fsencode(runs) + b"/caf\xe9"
    os.mkdir(odd)
    with open(odd + b"/config.yaml", "w") as file:
        file.write("task: {name: copy}\n")
    one = of(look(runs), "runs", "caf?")
    assert one["problem"] == "its name is not UTF-8: rename the folder"
    assert not one["openable"]
    os.mkdir(odd + b"/figures")
    with open(odd + b"/study.yaml", "w") as file:
        file.write("study: lag\n")
    look(runs)


def test_names_that_a_page_shows_as_they_are_can_be_asked_for(runs: Path) -> None:
    for name in ("two  spaces", "line\nbreak", "x" * 200 + "/" + "y" * 200, "Ω & <b>"):
        put(runs / name / "config.yaml", "task: {name: copy}\n")
        app = application(runs)
        assert ask(app, "/api/run", f"id={quote(name)}".encode()).status == 200
        assert of(look(runs), "runs", name)["task"] == "copy"


def test_what_vanishes_while_it_is_looked_at_is_explained(runs: Path) -> None:
    library = Library(runs)
    library.all()
    shutil.rmtree(runs / "good")
    shutil.rmtree(runs / "lag" / "runs")
    found = library.all()
    assert "cannot read config.yaml" in of(found, "runs", "good")["problem"]
    assert of(found, "studies", "lag")["begun"] == 0
    library.news()


def test_a_long_log_is_read_in_pieces_from_all_of_it(tmp_path: Path) -> None:
    line = '{"step": %d, "loss": 1.0, "note": "' + "x" * 60 + '"}\n'
    with open(tmp_path / "metrics.jsonl", "w") as file:
        file.writelines(line % step for step in range(200_000))
    steps = [entry["step"] for entry in records.metrics(tmp_path)]
    assert steps == sorted(set(steps))
    assert steps[0] == 0
    assert steps[-1] == 199_999
    assert len(steps) < 60_000
    # No stretch of the run is missing.
    assert max(b - a for a, b in pairwise(steps)) < 200_000 / 100
    assert records.progress(tmp_path) == records.Progress(199_999, 1.0)


def test_a_log_that_grows_without_end_costs_little(tmp_path: Path) -> None:
    with open(tmp_path / "metrics.jsonl", "wb") as file:
        file.write(b'{"step": 1}\n')
        file.truncate(1 << 36)
    assert records.metrics(tmp_path) == [{"step": 1}]
    records.progress(tmp_path)


def test_more_than_can_be_shown_is_said(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not look(runs)["cut"]
    monkeypatch.setattr(run_index, "MOST", 1)
    assert look(runs)["cut"]
    monkeypatch.setattr(run_index, "MOST", 2000)
    monkeypatch.setattr(run_index, "MOST_FOLDERS", 2)
    assert look(runs)["cut"]


def test_no_code_is_imported_that_a_file_names(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(runs.parent / "trap_of_scope.py", "raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(str(runs.parent))
    config = RunConfig.of("copy", "gru", {"steps": 50}).to_yaml()
    put(runs / "bad" / "config.yaml", config.replace("name: gru", "name: trap_of_scope:Trap"))
    put(runs / "bad" / "model.safetensors", b"nothing")
    assert "trap_of_scope" in (runs / "bad" / "config.yaml").read_text()
    look(runs)


def test_texts_for_the_page_that_are_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "folder.txt").mkdir()
    with open(os.fsencode(tmp_path) + b"/caf\xe9.txt", "w") as file:
        file.write("text")
    put(tmp_path / "good.txt", "text")
    assert texts.catalogue(tmp_path) == ["good.txt"]
    app = application(tmp_path, tmp_path)
    for name in ("pipe.txt", "folder.txt", "x" * 300 + ".txt"):
        answer = ask(app, "/api/text", f"name={name}".encode())
        assert answer.status == 400
        assert str(tmp_path) not in answer.body.decode()
    assert ask(app, "/api/text", b"name=good.txt").status == 200


def test_a_page_or_a_name_that_is_too_long_is_refused(runs: Path) -> None:
    app = application(runs)
    for path in (f"/files/{'x' * 300}.html", f"/files/{'x/' * 400}a.html", f"/web/{'x' * 5000}"):
        assert ask(app, path).status == 400
    assert ask(app, "/api/run", f"id={'x' * 300}".encode()).status == 400
    put(runs / "lag" / "report.html", "a" * 200_000)
    content = ask(app, "/files/lag/report.html").body
    assert content[:200_000] == b"a" * 200_000
    assert content[200_000:] == TELLS_HEIGHT


def test_settings_of_a_model_far_larger_than_its_weights_are_refused(runs: Path) -> None:
    config = RunConfig.of("copy", "gru", {"steps": 50, "width": 2_000_000}).to_yaml()
    put(runs / "bad" / "config.yaml", config)
    put(runs / "bad" / "model.safetensors", b"nothing")
    app = application(runs)
    for kind in ("run", "untrained"):
        answer = ask(app, "/api/model", f"id={kind}:bad".encode())
        assert answer.status == 400
        assert "belongs to another run" in answer.body.decode()
