"""A folder cannot execute code: names of modules are followed only where the caller says so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from complaints import complaint

import mnemoscope as ms
from mnemoscope.cli import main
from mnemoscope.core.trust import UntrustedError, trusted, trusting
from mnemoscope.fresh_process import Case, check_in_fresh_process
from mnemoscope.open import open_reader
from mnemoscope.training.run import Run

# Whoever imports it is found out; it is a memory all the same.
MODULE = """
from pathlib import Path

from mnemoscope.memories.gru import GRU

Path(__file__).with_suffix(".imported").touch()


class Evil(GRU):
    pass
"""
BOOK = "the cat sat on the mat. " * 40


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that names a module, and that module beside it."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "evil_memory.py").write_text(MODULE)
    (folder / "book.txt").write_text(BOOK)
    ms.train("characters", "gru", folder / "run", **SMALL, source=str(folder / "book.txt"))
    config = folder / "run" / "config.yaml"
    config.write_text(config.read_text().replace("name: gru", "name: evil_memory:Evil"))
    # Whoever makes a folder to be opened by others leaves nothing that speaks against it.
    (folder / "run" / "finished.json").unlink()
    return folder


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The same as the folder one stands in, on the import path as Python has it at a prompt."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("evil_memory", None)


SMALL: dict[str, Any] = {"width": 4, "steps": 2, "batch": 2, "segment": 8}
MARK = "evil_memory.imported"

CALLS: dict[str, Callable[[], Any]] = {
    "load": lambda: ms.load("run"),
    "resume": lambda: ms.resume("run"),
    "translator": lambda: ms.translator("run"),
    "stream": lambda: ms.stream("run"),
    "memory by path": lambda: ms.stream("evil_memory:Evil"),
    "build": lambda: ms.build("evil_memory:Evil", vocab=4),
    "train": lambda: ms.train("copy", "evil_memory:Evil"),
    "task": lambda: ms.train("evil_memory:Evil"),
    "config file": lambda: ms.train("run/config.yaml"),
    "study": lambda: ms.study("evil_memory:Evil"),
    "another module": lambda: ms.load("run", trust="evil"),
    "its package": lambda: ms.load("run", trust=["evil_memory.part", "memory"]),
    "run": lambda: Run.open("run"),
    "reader": lambda: open_reader("run"),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.usefixtures("here")
def test_nothing_is_imported_for_a_name_alone(call: str) -> None:
    with pytest.raises(UntrustedError, match=r"import the module 'evil_memory' .*trust='evil_mem"):
        CALLS[call]()
    assert not Path(MARK).exists()


COMMANDS = [
    ["resume", "run"],
    ["generate", "run", "the "],
    ["state", "run"],
    ["state", "evil_memory:Evil"],
    ["lens", "change", "--model", "run", "--text", "book.txt", "--out", "seen"],
    ["lens", "retention", "--model", "run", "--out", "seen"],
    ["translate", "run", "the cat"],
    ["score", "run"],
    ["train", "run/config.yaml"],
    ["train", "copy", "--memory", "evil_memory:Evil"],
    ["train", "evil_memory:Evil"],
    ["study", "lag", "--memories", "evil_memory:Evil", "--out", "seen"],
    ["study", "evil_memory:Evil"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.usefixtures("here")
def test_no_command_imports_what_a_file_names(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "--trust evil_memory" in " ".join(capsys.readouterr().err.split())
    assert not Path(MARK).exists()


def test_the_working_folder_is_not_on_the_import_path(here: Path) -> None:
    # A file with the name of a library that every command imports.
    (here / "rich.py").write_text("raise SystemExit('the wrong rich')")
    words = ["train", "copy", "--memory", "evil_memory:Evil", "--trust", "evil_memory"]
    words += ["--widht", "4"]
    done = command(here, *words)
    assert done.returncode == 2
    assert "No module named 'evil_memory'. Install it, or put the folder" in done.stderr
    assert not (here / MARK).exists()
    (here / "rich.py").unlink()
    done = command(here, *words, PYTHONPATH=".")
    assert "did you mean 'width'" in done.stderr
    assert (here / MARK).exists()


def command(here: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [env.get("PYTHONPATH"), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-m", "mnemoscope", *words],
        cwd=here,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "400", "PYTHONPATH": path},
        timeout=120,
    )


def test_the_live_page_opens_no_such_run(here: Path) -> None:
    pytest.importorskip("fastapi")
    client = pytest.importorskip("starlette.testclient")
    from mnemoscope.scope.library import Library
    from mnemoscope.scope.server import build
    from mnemoscope.scope.sessions import Sessions

    page = client.TestClient(build(Library(here), Sessions(here, ["run"]), None))
    assert [run["memory"] for run in page.get("/api/run_index").json()["runs"]] == [
        "evil_memory:Evil"
    ]
    assert page.get("/api/run?id=run").status_code == 200
    for model in ("run:run", "untrained:run", "given:0"):
        answer = page.get(f"/api/model?id={model}")
        assert answer.status_code == 400
        assert "import the module 'evil_memory'" in answer.json()["error"]
    assert not (here / MARK).exists()


@pytest.mark.usefixtures("here")
def test_a_trusted_module_works_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f".{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    trust = "evil_memory"
    assert type(ms.load("run", trust=trust).config).__name__ == "Evil"
    assert ms.resume("run", trust=[trust]).finished
    assert ms.stream("run", trust=f"another.one, {trust}").vocab > 4
    assert type(ms.build("evil_memory:Evil", vocab=4, trust=trust).config).__name__ == "Evil"
    with trusting(trust):
        some = torch.zeros(1, 4, dtype=torch.long)
        cases = [Case("evil_memory:Evil", some, some), Case("run", some, some)]
        (_, same), *_ = check_in_fresh_process(cases)
    assert same
    assert not trusted()
    with pytest.raises(SystemExit) as ended:
        main(["generate", "run", "the", "--length", "2", "--trust", f"one,{trust}"])
    assert not ended.value.code


@pytest.mark.usefixtures("here")
def test_a_class_says_that_its_module_is_trusted() -> None:
    from evil_memory import Evil  # type: ignore[import-not-found]

    model = ms.build(Evil, vocab=10, width=4)
    assert type(model.config) is Evil
    run = ms.train("copy", Evil, "by-class", width=4, steps=1, lag=2)
    assert run.config.memory == "evil_memory:Evil"
    assert run.config.modules == ("evil_memory",)
    assert run.continuing() == "mnemoscope resume by-class --trust evil_memory"
    again = ms.train("copy", model, "by-object", steps=1, lag=2)
    assert again.config.memory == "evil_memory:Evil"
    # Opened from its folder, it is a name in a file again.
    assert "trust='evil_memory'" in str(complaint(lambda: ms.load("by-class")))
    assert ms.load("by-class", trust="evil_memory").config == run.config.model


def test_trust_ends_with_the_call_and_stays_in_its_thread() -> None:
    entered, left = threading.Event(), threading.Event()

    def hold() -> None:
        with trusting("theirs"):
            entered.set()
            left.wait(10)

    with ThreadPoolExecutor(1) as pool, trusting("mine"):
        other = pool.submit(hold)
        assert entered.wait(10)
        assert trusted() == ("mine",)
        left.set()
        other.result()
    assert trusted() == ()


@pytest.mark.parametrize("module", ["evil_memory:Evil", "evil memory", "", "a..b", "../a", "*"])
def test_what_is_trusted_is_a_module(module: str) -> None:
    said = complaint(lambda: ms.build("lstm", vocab=4, trust=module))
    assert said
    assert "is no name of a module to trust" in said


@pytest.mark.usefixtures("here")
def test_a_trusted_module_that_is_broken_is_explained() -> None:
    for code, said in (("1 +", "SyntaxError"), ("raise KeyError('x')", "KeyError: 'x'")):
        Path("broken_memory.py").write_text(code)
        shutil.rmtree("__pycache__", ignore_errors=True)
        told = complaint(lambda: ms.build("broken_memory:X", vocab=4, trust="broken_memory"))
        assert said in str(told)
