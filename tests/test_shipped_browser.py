"""Every shipped page in a real browser: its headline, its finding, its figures, and no request."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from watched_page import Watched

from mnemoscope import shipped

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ViewportSize

pytestmark = [pytest.mark.browser, pytest.mark.slow]

# A common laptop's window.
WINDOW: ViewportSize = {"width": 1280, "height": 800}
UNDRAWN = """[...document.querySelectorAll('.plot')]
    .filter((plot) => !plot.querySelector('svg.main-svg')).map((plot) => plot.dataset.figure)"""


@pytest.mark.parametrize("name", shipped.shipped())
def test_a_shipped_page_leads_with_its_finding_and_draws_all_figures(
    browser: Browser, tmp_path: Path, name: str
) -> None:
    path = shipped.show(name, tmp_path).page
    watched = Watched()
    page = watched.watch(browser.new_page(viewport=WINDOW))
    try:
        page.goto(path.as_uri())
        page.wait_for_selector(".finding svg.main-svg")
        page.wait_for_function(f"{UNDRAWN}.length === 0")
        assert page.locator("h1").inner_text().strip()
        assert 1 <= page.locator(".finding > div > p").count() <= 3
        # Title, sentences and the axes of the figure are seen without scrolling.
        box = page.locator(".finding .plot").first.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= WINDOW["height"]
        assert page.evaluate("document.documentElement.scrollWidth") <= WINDOW["width"]
    finally:
        page.close()
    watched.assert_quiet()
