from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch

import mnemoscope
import mnemoscope as ms

PAGE = "how-it-is-built.md"
ROOT = Path(__file__).parents[2]
CODE = Path(mnemoscope.__file__).parent


def test_the_map_in_the_docs_is_the_one_that_is_checked_and_all_there_is() -> None:
    page = (ROOT / "docs" / PAGE).read_text()
    shown = [line.split()[0] for line in page.split("```text\n")[1].split("```")[0].splitlines()]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    there = {path.stem for path in CODE.iterdir() if path.suffix in (".py", "")}
    assert shown == layers[::-1]
    assert set(shown) == {name for name in there if not name.startswith("_")}


def crossed(call: Any, goal: Path) -> dict[str, Path]:
    """Functions of ours that lead to those of a folder, or are in it, in the order of a call."""
    found: dict[str, Path] = {}

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or not Path(frame.f_code.co_filename).is_relative_to(goal):
            return
        stack: list[FrameType] = []
        while frame is not None and frame.f_code is not call.__code__:
            stack.insert(0, frame)
            frame = frame.f_back  # type: ignore[assignment]
        for one in stack:
            file, name = Path(one.f_code.co_filename), one.f_code.co_qualname
            if file.is_relative_to(CODE) and not name.endswith(">"):  # <genexpr>, <lambda> …
                found.setdefault(name, file)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.filterwarnings("ignore:of the . basis functions")
def test_a_token_goes_through_the_infinite_former_as_the_page_says() -> None:
    model = ms.build("infinite", vocab=5, width=8, heads=2, mem_len=2, chunk=4, basis=4).eval()
    tokens = torch.zeros(1, 6, dtype=torch.long)
    with torch.no_grad():
        first = model(tokens).state
        model(tokens, first)  # what is computed once in a process is there from here on
        calls = crossed(lambda: model(tokens, first), CODE / "memories" / "infinite")
    assert first.layers[0].signal.count.tolist() == [1]
    section = (ROOT / "docs" / PAGE).read_text().split("## A token through the ∞-former")[1]
    told = re.findall(r"^\d\. `([\w.]+)`", section.split("\n## ")[0], re.MULTILINE)
    assert list(calls) == told
    assert len(calls) <= 9
    assert len(set(calls.values())) <= 5
    for file in set(calls.values()):
        assert f"`{file.relative_to(CODE)}`" in section
