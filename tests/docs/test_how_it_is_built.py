"""The map and the walks of the page are those of the code."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from tiny_study import LAG

import mnemoscope
import mnemoscope as ms

ROOT = Path(__file__).parents[2]
CODE = Path(mnemoscope.__file__).parent
PAGE = (ROOT / "docs" / "how-it-is-built.md").read_text()

# A function as the page names it, and the file it is in.
Named = tuple[str, str]


def test_the_map_in_the_docs_is_the_one_that_is_checked_and_all_there_is() -> None:
    shown = [line.split()[0] for line in PAGE.split("```text\n")[1].split("```")[0].splitlines()]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    there = {path.stem for path in CODE.iterdir() if path.suffix in (".py", "")}
    assert shown == layers[::-1]
    # Results are data: in an installed package their folder lies beside the code.
    assert set(shown) == {name for name in there if not name.startswith("_")} - {"results"}


def told(title: str) -> list[Named]:
    """The functions of a walk in order; one without a file is in that of the one before."""
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    found: list[Named] = []
    for name, file in re.findall(r"^\d+\. `([\w.]+)`(?: in\s+`([\w/.]+)`)?", section, re.MULTILINE):
        found.append((name, file or found[-1][1]))
    return found


def named(frame: FrameType) -> Named | None:
    """What a function of ours is called; None for one of somebody else, or without a name."""
    file, name = Path(frame.f_code.co_filename), frame.f_code.co_qualname
    if name.endswith(">") or not file.is_relative_to(CODE):  # <genexpr>, <lambda> …
        return None
    return name, file.relative_to(CODE).as_posix()


def watched(call: Callable[[], Any], note: Callable[[FrameType], None]) -> None:
    """Tell ``note`` of every function that is entered during a call."""
    sys.setprofile(lambda frame, event, argument: note(frame) if event == "call" else None)
    try:
        call()
    finally:
        sys.setprofile(None)


def crossed(call: Any, goal: str) -> list[Named]:
    """Functions of ours that lead to those of a folder, or are in it, in the order of a call."""
    found: dict[Named, None] = {}

    def note(frame: FrameType | None) -> None:
        stack: list[Named] = []
        if frame is None or not (named(frame) or ("", ""))[1].startswith(goal):
            return
        while frame is not None and frame.f_code is not call.__code__:
            stack = [one for one in [named(frame)] if one] + stack
            frame = frame.f_back
        found.update(dict.fromkeys(stack))

    watched(call, note)
    return list(found)


@pytest.mark.filterwarnings("ignore:of the . basis functions")
def test_a_token_goes_through_the_infinite_former_as_the_page_says() -> None:
    model = ms.build("infinite", vocab=5, width=8, heads=2, mem_len=2, chunk=4, basis=4).eval()
    tokens = torch.zeros(1, 6, dtype=torch.long)
    with torch.no_grad():
        first = model(tokens).state
        model(tokens, first)  # what is computed once in a process is there from here on
        calls = crossed(lambda: model(tokens, first), "memories/infinite/")
    assert first.layers[0].signal.count.tolist() == [1]
    assert calls == told("A token through the ∞-former")
    files = {file for _, file in calls}
    assert (len(calls), len(files)) == (9, 5)
    assert "Nine functions in five files are between the one call and the mathematics" in PAGE


def train(folder: Path) -> None:
    ms.train("copy", "gru", folder, width=4, lag=2, steps=2, batch=2)


def study(folder: Path) -> None:
    ms.study(
        "lag", out=folder, jobs=1, memories=("gru",), episodes=2, learning_rates=(0.01,), **LAG
    )


@pytest.mark.parametrize(
    ("title", "walk"), [("A training step", train), ("A study to its page", study)]
)
def test_a_walk_enters_the_functions_that_the_page_names_in_that_order(
    title: str, walk: Callable[[Path], None], tmp_path: Path
) -> None:
    wanted = told(title)
    entered: dict[Named | None, None] = {}
    watched(lambda: walk(tmp_path / "out"), lambda frame: entered.setdefault(named(frame)))
    assert len(wanted) > 9
    assert [one for one in entered if one in wanted] == wanted
