"""The studies `images` and `patterns`: small ones, run for real."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from watched_page import Watched

import mnemoscope as ms
from mnemoscope.api import Published
from mnemoscope.core.data import from_plain
from mnemoscope.core.errors import UserError
from mnemoscope.data.images import Images
from mnemoscope.data.passages import Passages
from mnemoscope.memories.sparse.config import Sparse
from mnemoscope.report.document import Table
from mnemoscope.studies.contest.claims import claims, order
from mnemoscope.studies.contest.measure import shares_by_distance
from mnemoscope.studies.contest.options import step_flop
from mnemoscope.studies.contest.page import costs
from mnemoscope.studies.contest.result import (
    Contestant,
    ContestResult,
    Curve,
    Training,
    distance_bins,
)
from mnemoscope.studies.images import study as images
from mnemoscope.studies.patterns import study as patterns

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SMALL: dict[str, Any] = {"width": 8, "layers": 2, "heads": 2, "steps": 6, "batch": 64, "seeds": 2}
SMALL["learning_rates"] = "0.001,0.01"


@pytest.fixture(scope="module")
def drawing(tmp_path_factory: pytest.TempPathFactory) -> Published:
    folder = tmp_path_factory.mktemp("images") / "study"
    options = {**SMALL, "held_out": 64, "tested": 64}
    return ms.study("images", out=folder, patterns="dense,local|column", samples=3, **options)


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Published:
    folder = tmp_path_factory.mktemp("patterns") / "study"
    options = {**SMALL, "batch": 16, "length": 40, "stride": 8, "patterns": "dense,fixed"}
    return ms.study("patterns", out=folder, held_out=16, tested=16, **options)


def test_images_leaves_curves_samples_and_looks(drawing: Published) -> None:
    figures = drawing.page.parent / "figures"
    for name in (
        "bits-per-dimension-against-compute",
        "images-drawn",
        "images-completed",
        "pixels-looked-at-by-depth",
        "pixels-looked-at-by-head",
        "attention-by-distance-at-every-depth",
        "what-is-claimed",
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
        shown = Images(test=0.1).batch(0, 3, seed=0, split="test").targets[:, :32]
        assert np.array_equal(completed[:, :32], shown)


@pytest.mark.parametrize("name", ["drawing", "reading"])
def test_compute_of_contestants_is_equal(name: str, request: pytest.FixtureRequest) -> None:
    models = request.getfixturevalue(name).result.contest.models.values()
    spent = [facts.steps * facts.flop for facts in models]
    # A step is the smallest difference there can be.
    assert abs(spent[0] - spent[1]) <= max(facts.flop for facts in models)


def test_patterns_leaves_curves_and_looks(reading: Published) -> None:
    figures = {path.stem for path in (reading.page.parent / "figures").glob("*.csv")}
    assert {
        "bits-per-byte-against-compute",
        "bytes-looked-at-by-depth",
        "bytes-looked-at-by-head",
        "attention-by-distance-at-every-depth",
    } <= figures
    for one in reading.result.contest.attended.values():
        heads, mean = np.array(one.by_head, float), np.array(one.maps, float)
        assert heads.shape == (2, 2, 40, 40)
        np.testing.assert_allclose(heads.mean(1), mean, rtol=0.01, atol=1e-3)
    models = reading.result.contest.models
    assert models["fixed"].state_bytes[-1] < models["dense"].state_bytes[-1]
    counted = reading.result.counted
    assert counted["pairs counted"] < counted["bytes counted"] < 8


@pytest.mark.browser
def test_the_slider_goes_through_the_layers(drawing: Published, browser: Browser) -> None:
    watched = Watched()
    page = watched.watch(browser.new_page())
    page.goto(drawing.page.absolute().as_uri())
    page.locator(".plot .main-svg").last.wait_for()
    plot = page.locator("#part-pixels-looked-at-by-head .plot")
    plot.scroll_into_view_if_needed()
    shown = "node => node._fullData.map(trace => trace.visible)"
    assert plot.evaluate(shown) == [True, False]
    slider = plot.locator(".slider-rail-touch-rect")
    slider.scroll_into_view_if_needed()  # a tall figure does not fit with its slider
    rail = slider.bounding_box()
    assert rail is not None
    page.mouse.click(rail["x"] + rail["width"] - 3, rail["y"] + rail["height"] / 2)
    page.wait_for_timeout(300)
    assert plot.evaluate(shown) == [False, True]
    page.close()
    watched.assert_quiet()


def test_flop_follow_from_weights_and_pairs() -> None:
    model = Sparse(vocab=7, width=8, layers=3, heads=2, pattern="dense", stride=4, summaries=1)
    built = model.build()
    weights = sum(w.numel() for name, w in built.named_parameters() if w.dim() == 2)
    weights -= built.embedding.weight.numel()
    pairs = 3 * 10 * 11 / 2
    assert step_flop(model, 10, 5) == 3 * 5 * (2 * weights * 10 + 4 * 8 * pairs)


def test_counting_models_count(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("ab" * 3000)
    counted = patterns.counted_bits(Passages(source=str(tmp_path), length=8, test=0.1))
    assert counted["bytes counted"] == pytest.approx(1, abs=0.1)
    assert counted["pairs counted"] < 0.2
    digits = Images(test=0.1)
    assert 0 < images.neighbour_bits(digits, 180) < images.counted_bits(digits, 180) < 4


def test_neighbours_are_counted_left_and_above(tmp_path: Path) -> None:
    """Each pixel is the sum of its neighbours to the left and above, modulo 4: no bits are left."""
    pixels = np.random.default_rng(0).integers(4, size=(400, 6, 6), dtype=np.uint8)
    for row in range(1, 6):
        for column in range(1, 6):
            pixels[:, row, column] = (pixels[:, row - 1, column] + pixels[:, row, column - 1]) % 4
    head = b"\x00\x00\x08\x03" + struct.pack(">III", *pixels.shape)
    (tmp_path / "a").write_bytes(head + (pixels * 64).tobytes())
    task = Images(source=str(tmp_path / "a"), levels=4, test=0.25)
    edge = 11 / 36  # these are random
    assert images.neighbour_bits(task, 100) == pytest.approx(2 * edge, abs=0.05)
    assert images.counted_bits(task, 100) == pytest.approx(2, abs=0.05)


def test_rates_are_chosen_on_other_data_than_is_reported(drawing: Published) -> None:
    contest = drawing.result.contest
    for name, facts in contest.models.items():
        sweep = [one for one in contest.sweep if one.model == name]
        assert facts.lr == min(sweep, key=lambda one: one.held_out_bits).lr
        for one in contest.of(name):
            assert one.curve is not None
            assert one.bits == one.curve.tested != one.held_out_bits
    parts = [Images(test=0.1).images(split) for split in ("train", "valid", "test")]
    assert sum(map(len, parts)) == 1797
    assert [len(part) for part in parts] == [1437, 180, 180]


def test_attention_is_kept_of_every_head_at_every_depth(drawing: Published) -> None:
    for one in drawing.result.contest.attended.values():
        shares = np.array(one.by_distance)
        assert shares.shape == (2, 2, len(distance_bins(64)))
        np.testing.assert_allclose(shares.sum(2), 1, atol=0.01)
        heads, mean = np.array(one.by_head, float), np.array(one.maps, float)
        np.testing.assert_allclose(heads.mean(1), mean, rtol=0.01)
    column = np.array(drawing.result.contest.attended["local|column"].by_distance)[0, 1]
    assert column[1:4].sum() == 0  # distances 1 to 7, where rows have 8 pixels


@pytest.mark.parametrize("length", [2, 3, 64, 65])
def test_shares_by_distance_count_every_distance_once(length: int) -> None:
    bins = distance_bins(length)
    first, last = bins[-1].split("–")[0], bins[-1].split("–")[-1]
    assert int(first) <= int(last) == length - 1
    even = np.tri(length)[None] / np.arange(1, length + 1)[:, None]
    shares = shares_by_distance(even)
    assert shares.shape == (1, len(bins))
    assert shares.sum() == pytest.approx(1)
    queries = np.arange(length // 2, length)
    assert shares[0, 0] == pytest.approx((1 / (queries + 1)).mean())


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
    counted = {"pairs": 1.3}
    assert order(result, counted) == "strided (0.850) < dense (1.100) ≈ fixed (1.125)"
    pairs = [("strided", "dense"), ("dense", "strided"), ("fixed", "dense"), ("local", "dense")]
    told = claims(result, counted, pairs)
    assert [one.verdict for one in told] == ["seen", "opposite", "unclear"]
    assert np.allclose(told[0].effects, [0.2, 0.3])
    counted = {"pairs": 1.18}  # one seed of dense is worse than counting
    assert order(result, counted) == "strided (0.850) < fixed (1.125); not passed: dense (1.100)"
    assert {one.verdict for one in claims(result, counted, pairs)} == {"not judged"}
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
