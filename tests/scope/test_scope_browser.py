"""The page in a real browser: every view opened, on a desk and on a phone, and safe."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scope_world import Client, at_segment, read

from mnemoscope.training.config import RunConfig

pytestmark = pytest.mark.browser

Visit = Callable[..., Any]

PHONE = {"width": 390, "height": 844}


def test_the_run_index_leads_to_studies_runs_and_models(visit: Visit) -> None:
    page = visit()
    page.wait_for_selector(".card")
    assert page.locator("h1").inner_text() == "What do they remember?"
    assert page.locator(".badge.finished").count() == 1
    page.click(".card a")
    page.wait_for_selector("iframe.report")
    frame = page.frame_locator("iframe.report")
    frame.locator("svg.main-svg").first.wait_for()
    assert frame.locator("h1").inner_text() == "How long do they remember?"
    page.click("table.runs td a >> nth=0")
    page.wait_for_selector("a.button")
    assert page.locator(".chart svg .curve").count() >= 1
    page.click("text=Compare with before training")
    page.wait_for_selector("textarea")
    assert page.locator("select[aria-label='Compare with']").input_value().startswith("untrained:")
    assert re.fullmatch(r"s\d", page.input_value("textarea").split()[0])
    page.click(".choose button[type=submit]")
    page.wait_for_selector(".pair .reader >> nth=1")
    page.go_back()
    page.wait_for_selector("a.button")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_sideways_scrolling(visit: Visit, scheme: str) -> None:
    page = visit(viewport=PHONE, is_mobile=True, has_touch=True, color_scheme=scheme)
    base = page.url.partition("#")[0]
    for address in ("", "#/study/lag", "#/run/lstm", "#/live?model=run:infinite"):
        page.goto(base + address)
        page.wait_for_selector("textarea" if "live" in address else "section")
        if "live" in address:
            read(page)
            at_segment(page, 5)
            page.locator(".text .token").nth(8).tap()
            assert "token 9" in page.locator(".inspector").inner_text()
        page.wait_for_timeout(100)
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"], address
    ink = page.evaluate("getComputedStyle(document.body).color")
    assert ink == ("rgb(28, 33, 40)" if scheme == "light" else "rgb(230, 233, 238)")


def test_a_running_study_moves_on_the_page(
    visit: Visit, opened: Callable[..., Client], tmp_path: Path
) -> None:
    folder = tmp_path / "lag-quick"
    run = folder / "runs" / "b"
    run.mkdir(parents=True)
    (folder / "study.yaml").write_text("study: lag\n")
    (run / "config.yaml").write_text(RunConfig.of("copy", "gru", {"steps": 50}).to_yaml())
    (run / "metrics.jsonl").write_text('{"step": 10, "loss": 2.0}\n')
    base = f"http://127.0.0.1:{opened(tmp_path).port}/"
    page = visit("", base=base)
    page.wait_for_selector(".badge.running")
    assert "b · step 10 of 50" in page.locator(".card").inner_text()
    with open(run / "metrics.jsonl", "a") as file:
        file.write(json.dumps({"step": 30, "loss": 1.0}) + "\n")
    page.wait_for_selector("text=b · step 30 of 50")
    page.click(".card a")
    page.wait_for_selector("td:text-is('30 / 50')")
    assert page.locator("iframe").count() == 0
    (run / "examined.json").write_text("{}")
    page.wait_for_selector("text=1 of 1 runs begun are finished")
    # A study may write a page before it is finished.
    (folder / "report.html").write_text("<h1>so far</h1>")
    page.frame_locator("iframe.report").locator("text=so far").wait_for()
    (folder / "report.html").write_text("<h1>more by now</h1>")
    page.frame_locator("iframe.report").locator("text=more by now").wait_for()
    (folder / "result.json").write_text("{}")
    page.wait_for_selector(".badge.finished")


def test_an_empty_folder_says_what_to_do(
    visit: Visit, opened: Callable[..., Client], tmp_path: Path
) -> None:
    base = f"http://127.0.0.1:{opened(tmp_path).port}/"
    page = visit("", base=base)
    page.wait_for_selector(".empty")
    page.click(".bar nav a >> nth=1")
    page.wait_for_selector("text=There is no model here yet")


def test_opened_wider_the_page_works_with_its_token(
    visit: Visit, opened: Callable[..., Client]
) -> None:
    client = opened(host="0.0.0.0")
    address = client.page.address.replace("0.0.0.0", "127.0.0.1")
    page = visit("", base=address)
    page.wait_for_selector(".card")
    assert "token" not in page.url
    page.click(".card a")
    page.frame_locator("iframe.report").locator("h1").wait_for()


def test_a_report_in_the_folder_cannot_reach_the_server(
    visit: Visit, opened: Callable[..., Client], tmp_path: Path
) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "study.yaml").write_text("study: lag\n")
    (tmp_path / "bad" / "report.html").write_text(
        "<h1>waiting</h1><script>"
        "fetch('/api/run_index').then(() => 'reached', () => 'refused')"
        ".then((word) => document.querySelector('h1').textContent = word);"
        "try { parent.hacked = 1 } catch {}</script>"
    )
    client = opened(tmp_path)
    page = visit("#/study/bad", base=f"http://127.0.0.1:{client.port}/", refused=True)
    frame = page.frame_locator("iframe.report")
    frame.locator("text=refused").wait_for()
    assert page.evaluate("window.hacked") is None
