"""The pages of the guide do what they say: their code is run as a reader would run it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mnemoscope as ms
from mnemoscope import memories
from mnemoscope.core.registry import MEMORIES, TASKS, TRANSLATORS, Entry, find

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"```python(?: title=\"(?P<title>[\w.]+)\")?\n(?P<code>.*?)```", re.DOTALL)


def blocks(page: str) -> list[tuple[str | None, str]]:
    text = (DOCS / page).read_text()
    return [(match["title"], match["code"]) for match in BLOCK.finditer(text)]


def run(code: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


PAGES = ["index.md", "memories.md", "infinite.md", "sparse.md", "training.md", "lenses/horizon.md"]
PAGES += ["lenses/retention.md"]
WITH_TRANSFORMERS = ["memories.md", "give-documents.md", "give-infinite.md"]

LENSES = [
    f"lenses/{name}.md"
    for name in ("index", "capture", "similarity", "information", "change", "waves")
]


@pytest.mark.parametrize(
    "page", dict.fromkeys([*PAGES, "translation.md", *LENSES, *WITH_TRANSFORMERS])
)
def test_code_on_the_page_runs(page: str, tmp_path: Path) -> None:
    if page in WITH_TRANSFORMERS:
        pytest.importorskip("transformers", reason="the page shows models of transformers")
    code = [code for _, code in blocks(page)]
    assert code
    run("\n".join(code), tmp_path)


@pytest.fixture
def fading_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which a reader has followed the page."""
    files = {title: code for title, code in blocks("add-a-memory.md") if title}
    for title, code in files.items():
        (tmp_path / title).write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_the_memory_of_the_page_passes_the_check_of_the_page(fading_home: Path) -> None:
    assert run((fading_home / "check.py").read_text(), fading_home).endswith("bytes\n")


def test_the_memory_of_the_page_is_trained_as_the_page_says(fading_home: Path) -> None:
    run((fading_home / "train.py").read_text(), fading_home)
    page = (DOCS / "add-a-memory.md").read_text()
    (typed,) = re.findall(r"^    PYTHONPATH=\. mnemoscope (.*)$", page, re.MULTILINE)
    words = [*shlex.split(typed), "--steps", "2", "--out", "typed"]
    done = subprocess.run(
        [sys.executable, "-m", "mnemoscope", *words],
        cwd=fading_home,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([".", os.environ.get("PYTHONPATH", "")])},
    )
    assert done.returncode == 0, done.stderr
    assert ms.load(fading_home / "typed", trust="fading").config.memory == "fading"


def test_the_memory_of_the_page_trains_by_path_and_by_name(
    fading_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = fading_home / "a"
    by_path = ms.train("copy", "fading:Fading", out, lag=2, steps=5, fade=0.5, trust="fading")
    config: Any = ms.load(by_path.folder, trust="fading").config
    assert config.fade == 0.5

    line = next(code for title, code in blocks("add-a-memory.md") if title is None)
    (name, entry), *rest = eval(f"{{{line}}}", {"Entry": Entry}).items()
    assert not rest
    assert (name, entry.path.rpartition(":")[2]) == ("fading", "Fading")
    monkeypatch.setattr("mnemoscope.memories.__path__", [*memories.__path__, str(fading_home)])
    monkeypatch.setitem(MEMORIES, name, entry)
    by_name = ms.train("copy", "fading", fading_home / "b", lag=2, steps=5, fade=0.5)
    assert by_name.metrics()[-1]["valid_loss"] == by_path.metrics()[-1]["valid_loss"]

    model = ms.load(by_name.folder)
    again = ms.train("copy", model, fading_home / "c", lag=2, steps=5)
    assert again.config.memory == "fading"


def test_every_memory_and_task_has_its_place_in_the_guide() -> None:
    for name in MEMORIES:
        assert f"`{name}`" in (DOCS / "memories.md").read_text()
        assert find("memory", name).__doc__
    for name in TRANSLATORS:
        assert f"`{name}`" in (DOCS / "translation.md").read_text()
    for name in TASKS:
        assert re.search(rf"^## .*\b{name}\b", (DOCS / "tasks.md").read_text(), re.MULTILINE)


def test_pictures_on_the_pages_exist() -> None:
    for page in [*DOCS.rglob("*.md"), DOCS.parent / "README.md"]:
        for target in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text()):
            assert (page.parent / target).is_file(), f"{page.name} shows {target}"
