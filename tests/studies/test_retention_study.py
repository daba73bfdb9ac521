from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import mnemoscope as ms
from mnemoscope import publish
from mnemoscope.api import Published
from mnemoscope.core.errors import UserError
from mnemoscope.studies.retention.page import tell
from mnemoscope.studies.retention.result import curves, front, points, span, unstable
from mnemoscope.studies.retention.study import CONTESTANTS, RetentionStudy
from mnemoscope.studies.sizes import state_bytes

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    """The smoke preset with all memories."""
    return ms.study("retention", "smoke", out=tmp_path_factory.mktemp("r") / "study", jobs=1)


def test_every_memory_is_trained_in_every_size_and_its_bound_holds(published: Published) -> None:
    result = published.result
    assert list(result["memories"]) == list(CONTESTANTS)
    assert len(result["trials"]) == result["planned"] == 10 * (2 * 2 + 1)
    for row in result["trials"]:
        for curve in row["curves"].values():
            for bits, size in zip(curve["bits"], curve["narrowest"], strict=True):
                assert bits <= 8 * size
    assert json.loads((published.page.parent / "result.json").read_text()) == result
    for name in ("recall-against-age", "recall-against-bytes", "flops-against-length"):
        assert (published.page.parent / "figures" / f"{name}.csv").stat().st_size > 0


def test_pages_on_the_way_say_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared: list[dict[str, Any]] = []
    told = RetentionStudy.tell

    def keep(self: RetentionStudy, result: dict[str, Any], folder: Path) -> Any:
        page = folder / "report.html"
        shared.append(copy.deepcopy(result) | {"page": page.is_file() and page.read_text()})
        return told(self, result, folder)

    monkeypatch.setattr(publish, "SHOW_EVERY", 0)
    monkeypatch.setattr(RetentionStudy, "tell", keep)
    few = {"memories": "gru,cache", "token_widths": "8", "kept": "8", "widths": "8"}
    ms.study("retention", "smoke", out=tmp_path / "a", jobs=1, **few)
    monkeypatch.undo()
    assert len(shared) == 2 * (2 + 1) + 1
    first, last = tell(shared[0]), tell(shared[-1])
    said = str(first[0].parts[0])
    assert first[0].title == "Not finished"
    assert "1 of 6 trainings are done" in said
    assert "Nothing is known yet of Transformer-XL" in said
    assert "1 of 6 trainings are done" in shared[1]["page"]
    assert "2 of 6 trainings are done" in shared[2]["page"]
    assert all(section.title != "Not finished" for section in last)
    empty = {**shared[0], "trials": []}
    assert [section.title for section in tell(empty)] == ["Not finished"]


def test_a_study_that_was_cut_off_goes_on_to_the_same_result(
    published: Published, tmp_path: Path
) -> None:
    folder = tmp_path / "half"
    shutil.copytree(published.page.parent, folder)
    (folder / "result.json").unlink()
    runs = sorted((folder / "runs").iterdir())
    (runs[3] / "examined.json").unlink()
    shutil.rmtree(runs[7])
    again = ms.study("retention", "smoke", out=folder, jobs=1)
    for old, new in zip(published.result["trials"], again.result["trials"], strict=True):
        assert new["run"] == old["run"]
        assert new["curves"] == old["curves"]


def test_the_cost_is_the_measured_state(published: Published) -> None:
    config = RetentionStudy.preset("smoke")
    for name, facts in published.result["memories"].items():
        for size, costs in zip(facts["sizes"], facts["costs"], strict=True):
            model = config.model(name, size)
            for length, carried in zip(costs["lengths"], costs["bytes"], strict=True):
                assert carried == state_bytes(model, length, config.segment)


def made(values: dict[str, list[float]], sizes: dict[str, int] | None = None) -> dict[str, Any]:
    """A result with one size and known bits at one age, per memory and seed."""
    trials = []
    for name, found in values.items():
        for seed, bits in enumerate(found):
            curve = {"x": [1], "bits": [bits], "blanked": [0.0], "shuffled": [0.0]}
            curve |= {"bytes": [8], "narrowest": [8]}
            row = {"memory": name, "size": 1, "lr": 0.1, "seed": seed, "run": f"{name}{seed}"}
            row |= {"curves": dict.fromkeys(("age", "items", "overwrites"), curve)}
            trials.append(row | {"capacity": bits, "bytes": (sizes or {}).get(name, 8)})
    facts = {"family": "kin", "turned": "width", "sizes": [1], "middle": 1, "lr": 0.1}
    memories = {name: {"label": name.upper(), **facts} for name in values}
    return {"memories": memories, "trials": trials, "values": 8}


def test_the_front_holds_those_that_nobody_beats() -> None:
    sizes = {"a": 10, "b": 20, "c": 40, "d": 80}
    result = made({"a": [1, 3], "b": [2, 2], "c": [5, 5], "d": [4, 4]}, sizes)
    assert [one["memory"] for one in front(points(result))] == ["a", "c"]
    same = made({"a": [1.0], "b": [2.0]}, {"a": 10, "b": 10})
    assert [one["memory"] for one in front(points(same))] == ["b"]


def test_an_order_is_stable_when_every_seed_has_it() -> None:
    values = {"a": np.array([3.0, 2.0]), "b": np.array([1.0, 1.0]), "c": np.array([0.5, 1.5])}
    assert unstable(values) == [("b", "c")]
    assert unstable({"a": values["a"], "b": values["b"]}) == []


def test_a_diverged_training_knows_nothing() -> None:
    result = made({"a": [3.0, 2.0]})
    result["trials"][1] = {"memory": "a", "size": 1, "lr": 0.1, "seed": 1, "diverged": "nan"}
    assert curves(result, "a", "age").tolist() == [[3.0], [0.0]]


def test_ages_are_said_with_their_limits() -> None:
    assert span([12.2, 8.0], 64) == "8 to 12"
    assert span([0, 0], 64) == "–"
    assert span([10, None], 64) == "10 to >\u00a064"


def test_options_are_checked_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"unknown memory 'gruu'.*'gru'"):
        ms.study("retention", "smoke", out=tmp_path / "a", memories="gruu")
    with pytest.raises(UserError, match="too short"):
        ms.study("retention", "smoke", out=tmp_path / "a", length=8, pairs=6)
    with pytest.raises(UserError, match="named twice"):
        ms.study("retention", "smoke", out=tmp_path / "a", memories="gru,gru")
    assert not (tmp_path / "a").exists()
    quick, paper = RetentionStudy.preset("quick"), RetentionStudy.preset("paper")
    assert paper.seeds >= quick.seeds >= 3
    assert len(quick.learning_rates) >= 3
    for name in CONTESTANTS:
        assert len(quick.sizes(name)) >= 3


@pytest.mark.browser
@pytest.mark.parametrize("width", [1100, 390])
def test_the_page_opens_and_draws_every_figure(
    published: Published, browser: Browser, width: int
) -> None:
    troubles: list[str] = []
    asked: list[str] = []
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.set_default_timeout(120_000)  # a busy machine is no failure
    page.on("console", lambda said: troubles.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(published.page.absolute().as_uri())
    page.locator(".plot .main-svg").last.wait_for()
    plots = page.locator(".plot")
    assert plots.count() == 7
    assert all(plots.nth(place).locator(".main-svg").count() for place in range(plots.count()))
    assert plots.first.locator("g[class^=legend]").count() >= 4
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert troubles == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    page.close()
