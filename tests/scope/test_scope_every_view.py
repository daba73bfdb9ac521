"""Every view of the page in a real browser: its headline, its figure, no complaint, no request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from scope_world import CAT, Client, World, read

import mnemoscope as ms
from mnemoscope import shipped
from mnemoscope.core.registry import MEMORIES, find

pytestmark = [pytest.mark.browser, pytest.mark.slow]

Visit = Callable[..., Any]

# Given to every memory that has them.
TINY = {"width": 16, "heads": 2, "mem_len": 8, "compressed_len": 4, "chunk": 8, "basis": 8}
TINY |= {"context": 64, "stride": 8, "summaries": 2, "layers": 1}
# The views that are no model's, and what of them must be drawn.
VIEWS = {
    "#/": "table.runs tbody tr",
    "#/study/lag": "iframe.report",
    "#/run/lstm": ".chart svg",
    **{f"#/shipped/{name}": "iframe.report" for name in shipped.shipped()},
}


@pytest.fixture(scope="session")
def every(world: World, opened: Callable[..., Client], tmp_path_factory: Any) -> Client:
    """A page over a run of every memory there is."""
    folder = tmp_path_factory.mktemp("memories")
    source = str(world.texts / "story.txt")
    for name in MEMORIES:
        known = find("memory", name).model_fields
        options: dict[str, Any] = {key: TINY[key] for key in TINY if key in known}
        ms.train("characters", name, folder / name, steps=1, segment=16, source=source, **options)
    return opened(folder)


def offered(page: Any) -> list[str]:
    """All models that the live view offers to watch."""
    page.wait_for_selector("select[aria-label=Model]")
    options = page.locator("select[aria-label=Model] option")
    return [str(one) for one in options.evaluate_all("all => all.map((one) => one.value)")]


def check_reading(page: Any, model: str) -> None:
    """Let a model read; look at headline, text, memory and a token.

    Tasks have episodes that the page suggests; tiny models know too few characters for its story.
    """
    base = page.url.partition("#")[0]
    page.goto("about:blank")
    page.goto(f"{base}#/live?{urlencode({'model': model})}")
    page.wait_for_selector("textarea")
    story = page.input_value("textarea").startswith("The keeper")
    read(page, CAT if story else None, None)
    page.locator(".text .token").nth(1).click()
    assert page.locator(".error").count() == 0, model
    assert page.locator("h1").inner_text() == "Watch it read"
    assert page.locator(".reader h2").inner_text().strip(), model
    assert page.locator(".panel").count() >= 1, model
    assert "token 2" in page.locator(".inspector").inner_text(), model
    assert page.evaluate("document.documentElement.scrollWidth") <= 1200, model


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_has_its_headline_and_figure(visit: Visit, view: str) -> None:
    page = visit(view)
    page.wait_for_selector(VIEWS[view])
    assert page.locator("h1").inner_text().strip()
    assert page.locator(".error").count() == 0
    if "iframe" in VIEWS[view]:
        frame = page.frame_locator("iframe.report")
        frame.locator(".finding svg.main-svg").first.wait_for()
        assert frame.locator("h1").inner_text().strip()


def test_every_kind_of_model_can_be_watched(visit: Visit) -> None:
    page = visit("#/live")
    models = offered(page)
    assert {one.partition(":")[0] for one in models} == {
        "run",
        "huggingface",
        "infinite",
        "documents",
    }
    for model in models:
        check_reading(page, model)


def test_every_memory_can_be_watched(visit: Visit, every: Client) -> None:
    page = visit("#/live", base=f"http://127.0.0.1:{every.port}/")
    models = offered(page)
    assert {one.partition(":")[2] for one in models} == set(MEMORIES)
    for model in models:
        check_reading(page, model)
