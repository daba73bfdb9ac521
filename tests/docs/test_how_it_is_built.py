from __future__ import annotations

import tomllib
from pathlib import Path

import mnemoscope

ROOT = Path(__file__).parents[2]
CODE = Path(mnemoscope.__file__).parent


def test_the_map_in_the_docs_is_the_one_that_is_checked_and_all_there_is() -> None:
    page = (ROOT / "docs" / "how-it-is-built.md").read_text()
    shown = [line.split()[0] for line in page.split("```text\n")[1].split("```")[0].splitlines()]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    there = {path.stem for path in CODE.iterdir() if path.suffix in (".py", "")}
    assert shown == layers[::-1]
    assert set(shown) == {name for name in there if not name.startswith("_")}
