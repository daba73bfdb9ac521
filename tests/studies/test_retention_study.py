"""The study `retention`: who takes part, in which sizes, and that it continues when stopped."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from watched_page import Watched

import mnemoscope as ms
from mnemoscope import publish
from mnemoscope.api import Published
from mnemoscope.core.data import from_plain
from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import MEMORIES
from mnemoscope.memories.gru import GRU
from mnemoscope.studies.retention.page import page
from mnemoscope.studies.retention.result import Examined, RetentionResult
from mnemoscope.studies.retention.study import RetentionStudy
from mnemoscope.studies.sizes import count, state_bytes

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Two memories in one size each: six trainings.
FEW: dict[str, Any] = {"token_widths": "8", "mem_lens": "8", "widths": "8"}


class Foreign(GRU):
    """Somebody else's memory."""


class Short(GRU):
    """A memory that cannot read on and on."""

    @property
    def limit(self) -> int:
        return 20


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    """The smoke preset with all memories that take part by default."""
    return ms.study("retention", "smoke", out=tmp_path_factory.mktemp("r") / "study", jobs=1)


def test_every_memory_is_trained_in_every_size_and_its_bound_holds(published: Published) -> None:
    result = published.result
    assert [memory.name for memory in result.memories] == list(RetentionStudy().memories)
    assert len(result.trials) == result.planned == 10 * (2 * 2 + 1)
    for one in result.trials:
        for curve in one.found.curves.values():
            for bits, size in zip(curve.bits, curve.narrowest, strict=True):
                assert bits <= 8 * size
    written = json.loads((published.page.parent / "result.json").read_text())
    assert from_plain(RetentionResult, written["result"]) == result
    for name in ("recall-against-age", "recall-against-bytes", "flops-against-length"):
        assert (published.page.parent / "figures" / f"{name}.csv").stat().st_size > 0


def test_all_sizes_and_seeds_are_trained_at_the_rate_with_the_lowest_held_out_loss(
    published: Published,
) -> None:
    config = RetentionStudy.preset("smoke")
    for memory in published.result.memories:
        here = [one for one in published.result.trials if one.memory == memory.name]
        swept = {
            one.lr: one.found.choosing
            for one in here
            if (one.size, one.seed) == (memory.middle.value, 0)
        }
        assert set(swept) == set(config.learning_rates)
        best = min(swept, key=lambda rate: swept[rate])
        assert published.result.lr(memory) == best
        chosen = {(one.size, one.seed) for one in here if one.lr == best}
        assert chosen == {(s.value, seed) for s in memory.sizes for seed in range(config.seeds)}


def shown_pages(monkeypatch: pytest.MonkeyPatch, report: Path) -> list[tuple[RetentionResult, str]]:
    """Every result that is drawn from now on, with the page that was there before."""
    shared: list[tuple[RetentionResult, str]] = []

    def drawn(result: RetentionResult) -> Any:
        shared.append((result, report.read_text() if report.is_file() else ""))
        return page(result)

    monkeypatch.setattr(publish, "SHOW_EVERY", 0)
    monkeypatch.setattr(RetentionStudy, "page", staticmethod(drawn))
    return shared


def test_pages_on_the_way_say_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = shown_pages(monkeypatch, tmp_path / "a" / "report.html")
    # By names that older versions had for a memory and an option.
    old: dict[str, Any] = {"memories": "gru,cache", "token_widths": "8", "kept": "8", "widths": "8"}
    ms.study("retention", "smoke", out=tmp_path / "a", jobs=1, **old)
    monkeypatch.undo()
    assert len(shared) == 2 * (2 + 1) + 1
    first, last = page(shared[0][0]), page(shared[-1][0])
    said = str(first[1].parts[0])
    assert first[1].title == "Not finished"
    assert "1 of 6 trainings are done" in said
    assert "Nothing is known yet of Transformer-XL" in said
    assert "1 of 6 trainings are done" in shared[1][1]
    assert "2 of 6 trainings are done" in shared[2][1]
    assert all(section.title != "Not finished" for section in last)


def test_the_demo_shows_the_shipped_page_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = shown_pages(monkeypatch, tmp_path / "a" / "report.html")
    small: dict[str, Any] = {
        "memories": "gru",
        "widths": "8",
        "steps": 2,
        "seeds": 1,
        "episodes": 8,
        "batch": 4,
    }
    done = ms.study("retention", "demo", out=tmp_path / "a", jobs=1, learning_rates="0.01", **small)
    monkeypatch.undo()
    (first, before), (second, at_once), *_ = shared
    assert (len(first.trials), before) == (0, "")
    assert "Shown is the result of the full study that is shipped with mnemoscope" in at_once
    assert "of this run 0 of 1 trainings are done" in at_once
    assert "&lt;i&gt;GRU" not in at_once
    # One training later its curve stands beside those that are shipped.
    assert [one.memory for one in second.trials] == ["gru"]
    final = done.page.read_text()
    assert "bits from the result of the full study that is shipped with mnemoscope" in final or (
        "No memory has learnt the task" in final
    )
    curves = (tmp_path / "a" / "figures" / "recall-against-age.csv").read_text()
    assert "GRU, shipped" in curves
    assert "\nGRU," in curves


def test_the_demo_is_small_and_asks_what_the_full_study_asked() -> None:
    demo, full = RetentionStudy.preset("demo"), RetentionStudy.preset("quick")
    assert set(demo.memories) <= set(full.memories)
    assert all(len(demo.sizes(name)) == 1 for name in demo.memories)
    assert demo.sizes("gru") == full.sizes("gru")[1:2]
    assert demo.sizes("infinite") == full.sizes("infinite")[1:2]
    assert demo.model("infinite", 16) == full.model("infinite", 16)
    assert demo.asked() == full.asked()
    assert demo.task() == full.task()


def test_retention_cut_off_goes_on_to_the_same_result(published: Published, tmp_path: Path) -> None:
    folder = tmp_path / "half"
    shutil.copytree(published.page.parent, folder)
    (folder / "result.json").unlink()
    runs = sorted((folder / "runs").iterdir())
    (runs[3] / "examined.json").unlink()
    shutil.rmtree(runs[7])
    # A run that version 0.1 made has the name that memory and option had then.
    now = next((folder / "runs").glob("transformer_xl-mem_len8-*"))
    before = now.with_name(now.name.replace("transformer_xl-mem_len", "cache-cached"))
    now.rename(before)
    again = ms.study("retention", "smoke", out=folder, jobs=1)
    assert before.is_dir()
    assert not now.exists()
    for old, new in zip(published.result.trials, again.result.trials, strict=True):
        assert new.run == old.run
        assert new.found.curves == old.found.curves


def test_the_cost_is_the_measured_state(published: Published) -> None:
    config = RetentionStudy.preset("smoke")
    for memory in published.result.memories:
        for size in memory.sizes:
            model = config.model(memory.name, size.value)
            assert size.parameters == count(model)
            assert size.cost.lengths == config.lengths
            for length, carried in zip(size.cost.lengths, size.cost.bytes, strict=True):
                assert carried == state_bytes(model, length, config.segment)


@pytest.mark.parametrize("name", [*MEMORIES, "strided", "fixed", "sticky"])
def test_any_registered_memory_can_take_part(name: str) -> None:
    study = RetentionStudy.preset("quick", memories=name)
    assert len(study.sizes(name)) >= 3
    small, large = (study.model(name, size) for size in study.sizes(name)[:2])
    assert small.vocab == study.task().vocab
    assert state_bytes(small, 64, study.segment) < state_bytes(large, 64, study.segment)


def test_somebody_elses_memory_takes_part_by_its_path(tmp_path: Path) -> None:
    name = f"{__name__}:Foreign"
    few = {**FEW, "memories": name, "learning_rates": "0.01", "seeds": 1}
    published = ms.study("retention", "smoke", out=tmp_path / "a", jobs=1, trust=__name__, **few)
    (one,) = published.result.trials
    assert isinstance(one.found, Examined)
    assert one.run == f"{__name__}.Foreign-width8-lr0.01-seed0"
    (memory,) = published.result.memories
    assert (memory.family, memory.sized_by) == ("one vector", "width")
    with pytest.raises(UserError, match=r"Short cannot take part: it can read 20 tokens.*has 22"):
        ms.study(
            "retention", "smoke", out=tmp_path / "b", memories=f"{__name__}:Short", trust=__name__
        )


def test_retention_refuses_options_before_anything_runs(tmp_path: Path) -> None:
    refused: dict[tuple[str, Any], str] = {
        ("memories", "gruu"): r"unknown memory 'gruu'.*'gru'",
        ("memories", "stiky"): r"unknown memory 'stiky'.*'sticky'",
        ("memories", "gru,gru"): "named twice",
        ("pairs", 20): "too short",
        ("lengths", "32,8"): "lengths: must be increasing",
        ("ages", "30,40"): "ages must begin below length=24",
        ("token_widths", "5"): "width 5 is not a multiple of heads 2",
    }
    for (name, value), said in refused.items():
        with pytest.raises(UserError, match=said):
            ms.study("retention", "smoke", out=tmp_path / "a", keys=32, **{name: value})
    assert not (tmp_path / "a").exists()


def test_presets_have_enough_seeds_rates_and_sizes() -> None:
    quick, paper = RetentionStudy.preset("quick"), RetentionStudy.preset("paper")
    assert paper.seeds >= quick.seeds >= 3
    assert len(quick.learning_rates) >= 3
    for name in quick.memories:
        assert len(quick.sizes(name)) >= 3


@pytest.mark.browser
@pytest.mark.parametrize("width", [1100, 390])
def test_the_retention_page_opens_and_draws_every_figure(
    published: Published, browser: Browser, width: int
) -> None:
    watched = Watched()
    tab = watched.watch(browser.new_page(viewport={"width": width, "height": 800}))
    tab.goto(published.page.absolute().as_uri())
    tab.locator(".plot .main-svg").last.wait_for()
    plots = tab.locator(".plot")
    assert plots.count() == 7
    assert all(plots.nth(at).locator(".main-svg").count() for at in range(plots.count()))
    assert plots.first.locator("g[class^=legend]").count() >= 4
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.close()
    watched.assert_quiet()
