"""The studies `images` and `patterns`: small ones, run for real."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import mnemoscope as ms
from mnemoscope.api import Published
from mnemoscope.core.data import from_plain
from mnemoscope.core.errors import UserError
from mnemoscope.data.images import Images
from mnemoscope.data.passages import Passages
from mnemoscope.memories.sparse.config import Sparse
from mnemoscope.report.document import Table
from mnemoscope.studies.contest.options import step_flop
from mnemoscope.studies.contest.page import costs, differences, order
from mnemoscope.studies.contest.result import Contestant, ContestResult, Curve, Training
from mnemoscope.studies.images import study as images
from mnemoscope.studies.patterns import study as patterns

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SMALL: dict[str, Any] = {"width": 8, "layers": 2, "heads": 2, "steps": 6, "batch": 64, "seeds": 2}
SMALL["learning_rates"] = "0.001,0.01"


@pytest.fixture(scope="module")
def drawing(tmp_path_factory: pytest.TempPathFactory) -> Published:
    folder = tmp_path_factory.mktemp("images") / "study"
    return ms.study("images", out=folder, patterns="dense,local|column", samples=3, **SMALL)


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Published:
    folder = tmp_path_factory.mktemp("patterns") / "study"
    options = {**SMALL, "batch": 16, "length": 40, "stride": 8, "patterns": "dense,fixed"}
    return ms.study("patterns", out=folder, held_out=16, **options)


def test_images_leaves_curves_samples_and_looks(drawing: Published) -> None:
    figures = drawing.page.parent / "figures"
    for name in (
        "bits-per-dimension-against-compute",
        "images-drawn",
        "images-completed",
        "pixels-looked-at-by-depth",
        "distance-looked-back-over",
        "two-masks-and-their-product",
        "cost-of-a-step",
        "bytes-of-state",
    ):
        assert (figures / f"{name}.csv").stat().st_size > 0
    result = drawing.result
    kept = json.loads((drawing.page.parent / "result.json").read_text())["result"]
    assert from_plain(type(result), kept) == result
    assert len(result.contest.trainings) == 4
    for name in result.contest.models:
        drawn, completed = np.array(result.drawn[name]), np.array(result.completed[name])
        assert drawn.shape == completed.shape == (3, 64)
        assert drawn.min() >= 0
        assert drawn.max() < 16
        shown = Images().batch(0, 3, seed=0, split="valid").targets[:, :32]
        assert np.array_equal(completed[:, :32], shown)


@pytest.mark.parametrize("name", ["drawing", "reading"])
def test_compute_of_contestants_is_equal(name: str, request: pytest.FixtureRequest) -> None:
    models = request.getfixturevalue(name).result.contest.models.values()
    spent = [facts.steps * facts.flop for facts in models]
    # A step is the smallest difference there can be.
    assert abs(spent[0] - spent[1]) <= max(facts.flop for facts in models)


def test_patterns_leaves_curves_and_looks(reading: Published) -> None:
    figures = {path.stem for path in (reading.page.parent / "figures").glob("*.csv")}
    assert {"bits-per-byte-against-compute", "bytes-looked-at-by-depth"} <= figures
    models = reading.result.contest.models
    assert models["fixed"].state_bytes[-1] < models["dense"].state_bytes[-1]
    counted = reading.result.counted
    assert counted["pairs counted"] < counted["bytes counted"] < 8


@pytest.mark.browser
def test_the_slider_goes_through_the_layers(drawing: Published, browser: Browser) -> None:
    page = browser.new_page()
    page.set_default_timeout(120_000)  # a busy machine is no failure
    troubles: list[str] = []
    page.on("console", lambda said: troubles.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.goto(drawing.page.absolute().as_uri())
    page.locator(".plot .main-svg").last.wait_for()
    plot = page.locator("#part-pixels-looked-at-by-depth .plot")
    plot.scroll_into_view_if_needed()
    shown = "node => node._fullData.map(trace => trace.visible)"
    assert plot.evaluate(shown) == [True, False]
    rail = plot.locator(".slider-rail-touch-rect").bounding_box()
    assert rail is not None
    page.mouse.click(rail["x"] + rail["width"] - 3, rail["y"] + rail["height"] / 2)
    page.wait_for_timeout(300)
    assert plot.evaluate(shown) == [False, True]
    assert troubles == []
    page.close()


def test_flop_follow_from_weights_and_pairs() -> None:
    model = Sparse(vocab=7, width=8, layers=3, heads=2, pattern="dense", stride=4, summaries=1)
    built = model.build()
    weights = sum(w.numel() for name, w in built.named_parameters() if w.dim() == 2)
    weights -= built.embedding.weight.numel()
    pairs = 3 * 10 * 11 / 2
    assert step_flop(model, 10, 5) == 3 * 5 * (2 * weights * 10 + 4 * 8 * pairs)


def test_counting_models_count(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("ab" * 3000)
    counted = patterns.counted_bits(Passages(source=str(tmp_path), length=8))
    assert counted["bytes counted"] == pytest.approx(1, abs=0.1)
    assert counted["pairs counted"] < 0.2
    assert 0 < images.counted_bits(Images()) < 4


def result_of(bits: dict[str, list[float]]) -> ContestResult:
    trainings = tuple(
        Training(name, 0.01, seed, Curve((3, 6), (9.0, value), 2.0))
        for name, values in bits.items()
        for seed, value in enumerate(values)
    )
    models = {name: Contestant(5.0, 6, 7.5, 0.01, (8, 16)) for name in bits}
    return ContestResult(8, 4, 2, 2, models, trainings, trainings, (2, 8), {})


def test_an_order_is_claimed_only_where_all_seeds_agree() -> None:
    result = result_of({"dense": [1.0, 1.2], "strided": [0.8, 0.9], "fixed": [1.1, 1.15]})
    assert order(result) == "strided (0.850) < dense (1.100) ≈ fixed (1.125)"
    told = differences(result, "dense")
    assert told[0] == "strided ends below dense by seed: -0.200, -0.300"
    assert told[1].startswith("fixed ends around dense")
    lost = Training("dense", 0.01, 0, None, "nan")
    result = replace(result, trainings=(lost, *result.trainings[1:]))
    assert result.final_bits("dense").tolist() == [np.inf, 1.2]
    table = next(part for part in costs(result, "byte").parts if isinstance(part, Table))
    assert table.rows[1] == ["strided", 7.5, 1.0, 6, "0.01", pytest.approx(0.85), 2.0]


def test_options_of_contests_are_checked_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="longer than a passage"):
        ms.study("patterns", out=tmp_path / "a", length=8, stride=16)
    with pytest.raises(UserError, match="did you mean 'strided'"):
        ms.study("images", out=tmp_path / "b", patterns="stridded", **SMALL)
    with pytest.raises(UserError, match="there is no file or folder"):
        ms.study("images", out=tmp_path / "c", source=str(tmp_path / "none"), **SMALL)
