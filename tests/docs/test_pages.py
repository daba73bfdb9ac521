"""The guide has all there is, and the memory that it adds works; test_printed runs its code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import printed
import pytest

import mnemoscope as ms
from mnemoscope import memories
from mnemoscope.core.registry import MEMORIES, TASKS, TRANSLATORS, Entry, find

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def fading_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the page."""
    for block in printed.blocks("docs/add-a-memory.md"):
        if block.title and "/" not in block.title:
            (tmp_path / block.title).write_text(block.text)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_the_memory_of_the_page_trains_by_path_and_by_name(
    fading_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = fading_home / "a"
    by_path = ms.train("copy", "fading:Fading", out, lag=2, steps=5, fade=0.5, trust="fading")
    config: Any = ms.load(by_path.folder, trust="fading").config
    assert config.fade == 0.5

    written = "src/mnemoscope/core/registry.py"
    (line,) = (one.text for one in printed.blocks("docs/add-a-memory.md") if one.title == written)
    ((name, kind, said),) = eval(line)
    entry = Entry(f"mnemoscope.memories.{name}:{kind}", said)
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


def test_what_pages_show_or_link_to_exists() -> None:
    for page in [*DOCS.rglob("*.md"), *DOCS.parent.glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            there = target.startswith("https://") or (page.parent / target).is_file()
            assert there, f"{page.name} links to {target}"
