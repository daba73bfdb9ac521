"""Every figure of the guide is drawn by code that is there, from a result that is shipped."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from mnemoscope import shipped
from mnemoscope.report.document import slug

DOCS = Path(__file__).parents[2] / "docs"
FIGURES: dict[str, dict[str, str]] = runpy.run_path(str(DOCS / "draw_figures.py"))["FIGURES"]


def test_what_pages_show_is_drawn_and_what_is_drawn_is_shown() -> None:
    shown = {
        figure
        for page in [*DOCS.rglob("*.md"), *DOCS.parent.glob("*.md")]
        for figure in re.findall(r"figures/([\w-]+\.(?:svg|png))", page.read_text())
    }
    drawn = {file for files in FIGURES.values() for file in files}
    # Those of the live page have code of their own, and so has hello.md.
    pictures = re.findall(r'^    "(scope-[\w-]+)"', (DOCS / "draw_scope.py").read_text(), re.M)
    drawn |= {f"{name}.png" for name in pictures}
    code = "".join(re.findall(r"```python\n(.*?)```", (DOCS / "hello.md").read_text(), re.DOTALL))
    drawn |= {f"{name}.svg" for name in re.findall(r'"(hello-[\w-]+)"', code)}
    assert drawn == shown == {path.name for path in (DOCS / "figures").iterdir()}


@pytest.mark.parametrize("result", FIGURES)
def test_the_page_of_a_result_has_the_figures_that_the_guide_takes_from_it(result: str) -> None:
    page = shipped.page(shipped.load(result))
    assert {slug(one.name) for one in page.figures()} >= set(FIGURES[result].values())
