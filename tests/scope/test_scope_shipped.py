"""Results that come with the package, on the live page: listed, drawn once, nothing else read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from mnemoscope import shipped

pytest.importorskip("fastapi")

from page_requests import application, ask

from mnemoscope.scope import shipped_pages
from mnemoscope.studies import results


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    forget()
    yield
    forget()


def forget() -> None:
    shipped_pages.listed.cache_clear()
    shipped_pages._rendered.cache_clear()


def test_shipped_results_are_listed_beside_the_folder_of_runs(tmp_path: Path) -> None:
    found = json.loads(ask(application(tmp_path), "/api/run_index").body)
    assert found["studies"] == []
    assert [one["id"] for one in found["shipped"]] == shipped.shipped()
    lag = next(one for one in found["shipped"] if one["id"] == "lag")
    assert lag["of"] == "study lag"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", lag["date"])
    assert lag["problem"] is None
    assert json.loads(ask(application(tmp_path), "/api/shipped", b"id=lag").body) == lag


def test_the_page_of_a_shipped_result_is_drawn_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []
    page = shipped.page

    def noted(*given: Any) -> Any:
        drawn.append(given)
        return page(*given)

    monkeypatch.setattr(shipped, "page", noted)
    app = application(tmp_path)
    first, second = ask(app, "/shipped/lag"), ask(app, "/shipped/lag")
    assert first.status == 200
    assert b"How long do they remember?" in first.body
    assert first == second
    assert len(drawn) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["nothing", "..", "../results/lag", "lag/result.json", "/etc/passwd", "*", "la?", ""]
)
def test_no_name_leads_out_of_the_shipped_results(tmp_path: Path, name: str) -> None:
    app = application(tmp_path)
    for path, query in ((f"/shipped/{name}", ""), ("/api/shipped", f"id={quote(name)}")):
        said = ask(app, path, query.encode())
        assert said.status in (400, 404)
        assert json.loads(said.body)["error"]


def test_other_sites_get_no_shipped_page(tmp_path: Path) -> None:
    origin = [(b"origin", b"http://evil.example")]
    assert ask(application(tmp_path), "/shipped/lag", headers=origin).status == 403


def test_a_damaged_shipped_result_is_explained_and_the_others_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "results"
    whole = next(shipped.home().glob("lag/result.json*"))
    for name, content in {"cut": whole.read_bytes()[:99], "whole": whole.read_bytes()}.items():
        (home / name).mkdir(parents=True)
        (home / name / whole.name).write_bytes(content)
    monkeypatch.setattr(results, "PACKAGE", tmp_path)
    app = application(tmp_path)
    cut, other = json.loads(ask(app, "/api/run_index").body)["shipped"]
    assert "damaged" in cut["problem"]
    assert str(tmp_path) not in cut["problem"]
    assert other["problem"] is None
    assert ask(app, "/shipped/cut").status == 400
    assert ask(app, "/shipped/whole").status == 200


@pytest.mark.browser
def test_a_shipped_result_opens_from_the_run_index(visit: Callable[..., Any]) -> None:
    page = visit()
    page.wait_for_selector(".shipped h2:text('Shipped with mnemoscope')")
    told = page.locator(".shipped li:has(a:text-is('lag'))").inner_text()
    assert "after how long do RNN, LSTM, GRU, Transformer forget?" in told
    page.click(".shipped a:text-is('lag')")
    frame = page.frame_locator("iframe.report")
    frame.locator("svg.main-svg").first.wait_for()
    assert frame.locator("h1").inner_text() == "How long do they remember?"
    assert "Shipped with mnemoscope: study lag, made on" in page.locator("header").inner_text()
