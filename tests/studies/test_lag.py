from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from watched_page import Watched

import mnemoscope as ms
from mnemoscope.api import Published
from mnemoscope.core.data import from_plain, to_plain
from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import MEMORIES, find
from mnemoscope.report.document import Figure
from mnemoscope.studies.lag import page as lag_page
from mnemoscope.studies.lag.result import Asked, LagResult, Model, Training
from mnemoscope.studies.lag.study import Lag, choose_rate
from mnemoscope.studies.sizes import count, sized, state_bytes

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SMALL: dict[str, Any] = {
    "parameters": 4000,
    "trained": 4,
    "tested": (1, 4, 8),
    "steps": 30,
    "batch": 8,
    "learning_rates": (1e-3, 1e-2),
    "episodes": 16,
}
STUDY = "lag"


def test_lag_leaves_its_page_its_result_and_its_numbers(published: Published) -> None:
    folder = published.page.parent
    page = published.page.read_text()
    kept = json.loads((folder / "result.json").read_text())
    assert from_plain(LagResult, kept["result"]) == published.result
    assert "mnemoscope study lag --preset quick --parameters 4000" in page
    for name in ("recall-against-wait", "lstm-gates", "gru-gates", "next-letter-after-hell"):
        assert (folder / "figures" / f"{name}.csv").stat().st_size > 0
    assert len(published.result.trainings) == 4 * 2 * 3
    assert len((folder / "figures" / "recall-against-wait.csv").read_text().splitlines()) == 1 + 36


def test_a_finished_study_is_not_run_again(published: Published) -> None:
    runs = published.page.parent / "runs"
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("*")}
    again = ms.study("lag", out=published.page.parent, **SMALL)
    assert again.result == published.result
    assert {path: path.stat().st_mtime_ns for path in runs.rglob("*")} == before


def test_lag_cut_off_goes_on_to_the_same_result(published: Published, tmp_path: Path) -> None:
    folder = tmp_path / "half"
    shutil.copytree(published.page.parent, folder)
    (folder / "result.json").unlink()
    kept = folder / "runs" / "gru-lr0.001-seed1" / "examined.json"
    kept.unlink()
    shutil.rmtree(folder / "runs" / "rnn-lr0.01-seed0")
    again = ms.study("lag", out=folder, **SMALL)
    for old, new in zip(published.result.trainings, again.result.trainings, strict=True):
        assert old.asked
        assert new.asked
        assert (new.asked.accuracy, new.asked.bits) == (old.asked.accuracy, old.asked.bits)


def test_another_study_or_foreign_files_are_never_mixed_in(
    published: Published, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="other options"):
        ms.study("lag", out=published.page.parent, **{**SMALL, "steps": 31})
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(UserError, match="not a study"):
        ms.study("lag", out=tmp_path, **SMALL)


def test_options_of_lag_are_checked_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no option 'sedes'.*'seeds'"):
        ms.study("lag", out=tmp_path / "a", sedes=3)
    with pytest.raises(UserError, match=r"unknown preset 'quik'.*'quick'"):
        ms.study("lag", preset="quik", out=tmp_path / "a")
    with pytest.raises(UserError, match="none of the waits tested"):
        ms.study("lag", out=tmp_path / "a", trained=2, tested=(4, 8))
    with pytest.raises(UserError, match="increasing"):
        ms.study("lag", out=tmp_path / "a", tested=(8, 4))
    assert not (tmp_path / "a").exists()


def test_paper_preset_differs_from_quick() -> None:
    assert Lag.preset("paper").parameters > Lag.preset("quick").parameters
    assert Lag.preset("paper").seeds >= Lag.preset("quick").seeds >= 3


@pytest.mark.parametrize("memory", MEMORIES)
def test_sized_models_are_the_widest_within_the_budget(memory: str) -> None:
    config = sized(memory, 9000, vocab=13)
    step = 8 if "heads" in find("memory", memory).model_fields else 1
    wider = config.model_copy(update={"width": config.width + step})
    assert count(config) <= 9000 < count(wider)
    assert count(config) == sum(weight.numel() for weight in config.build().parameters())


def test_a_budget_too_small_for_any_model_is_an_error() -> None:
    with pytest.raises(UserError, match="at least"):
        sized("transformer", 10, vocab=13)


def test_recurrent_state_has_one_size_and_attention_grows() -> None:
    lstm, attention = sized("lstm", 9000, vocab=13), sized("transformer", 9000, vocab=13)
    assert state_bytes(lstm, 5) == state_bytes(lstm, 50) == 2 * 4 * lstm.width
    per_token = 2 * 4 * attention.width * attention.layers
    assert state_bytes(attention, 50) - state_bytes(attention, 5) == 45 * per_token


def result_of(accuracy: dict[str, list[list[float]]]) -> LagResult:
    """A result with known curves: per memory, one row per seed over the waits 1, 4, 16, 64."""
    trainings = [
        Training(memory, 0.01, seed, Asked(tuple(row), (0.0,) * 4, row[0], 1.5))
        for memory, rows in accuracy.items()
        for seed, row in enumerate(rows)
    ]
    models = {memory: Model(100, 8, 1, 0.01, (32,) * 4) for memory in accuracy}
    return LagResult((1, 4, 16, 64), 4, 3, 8, models, tuple(trainings), {}, {})


def test_half_life_is_the_last_wait_above_half_way_to_chance() -> None:
    result = result_of({"gru": [[1, 0.57, 0.56, 0.9], [0.5, 1, 1, 1], [1, 1, 1, 1]]})
    assert result.half_lives("gru") == [4, 0, 64]


def test_ranking_claims_an_order_only_where_all_seeds_agree() -> None:
    result = result_of(
        {
            "rnn": [[0.2] * 4, [0.3] * 4],
            "lstm": [[0.9] * 4, [0.7] * 4],
            "gru": [[0.8] * 4, [1.0] * 4],
        }
    )
    among = ["RNN", "LSTM", "GRU"]
    assert lag_page.ranking(result, 4, among) == "GRU (0.90) ≈ LSTM (0.80) > RNN (0.25)"


def test_a_memory_at_chance_has_no_place_in_the_order() -> None:
    result = result_of({"rnn": [[0.14] * 4, [0.2] * 4], "gru": [[0.8] * 4, [1.0] * 4]})
    spelt = ((0.1, 0.2, 0.3, 0.4),) * 4
    whole = replace(result, spelling={"rnn": (spelt,), "gru": (spelt,)})
    orders = next(one for one in lag_page.page(whole) if one.title == "Who before whom")
    said = [part for part in orders.parts if isinstance(part, str)]
    assert "passed by GRU; not by RNN" in said[0]
    assert said[1].endswith("within what was trained: GRU (0.90).")


def test_a_diverged_training_counts_as_knowing_nothing() -> None:
    result = result_of({"rnn": [[0.9] * 4, [0.9] * 4]})
    lost = Training("rnn", 0.01, 1, None, "nan")
    result = replace(result, trainings=(result.trainings[0], lost))
    assert result.accuracy("rnn")[1].tolist() == [1 / 8] * 4
    assert result.bits("rnn")[1].tolist() == [0.0] * 4
    other = Training("rnn", 0.001, 0, Asked((0.9,) * 4, (0.0,) * 4, 0.6, 1.0))
    assert choose_rate([*result.trainings, other], "rnn") == 0.001


def test_numbers_of_the_page_are_those_of_the_result() -> None:
    result = result_of({"gru": [[1.0, 0.9, 0.5, 0.2], [0.8, 0.9, 0.7, 0.4]]})
    whole = replace(result, spelling={"gru": (((0.1, 0.2, 0.3, 0.4),) * 4,)})
    again = from_plain(LagResult, json.loads(json.dumps(to_plain(whole))))
    assert again == whole
    sections = lag_page.page(again)
    recall = next(part for part in sections[0].parts if isinstance(part, Figure))
    assert [row["accuracy"] for row in recall.data] == [1.0, 0.9, 0.5, 0.2, 0.8, 0.9, 0.7, 0.4]
    said = " ".join(part for one in sections for part in one.parts if isinstance(part, str))
    assert "Order after a wait of 4, the longest tested within what was trained: GRU (0.90)" in said
    assert "half-way from guessing to all right: GRU up to 4 to 16 tokens, by seed." in said
    assert "Probability of o after “hell”: GRU 0.40" in said


@pytest.mark.browser
def test_the_page_opens_and_draws_every_figure(published: Published, browser: Browser) -> None:
    watched = Watched()
    page = watched.watch(browser.new_page())
    page.goto(published.page.absolute().as_uri())
    plots = page.locator(".plot")
    drawn = page.locator(".plot .main-svg")
    drawn.last.wait_for()
    figures = {path.stem for path in (published.page.parent / "figures").glob("*.csv")}
    tables = page.locator("figure.table").count()
    assert plots.count() == len(figures) - tables
    assert all(plots.nth(place).locator(".main-svg").count() for place in range(plots.count()))
    page.close()
    watched.assert_quiet()


def test_a_mistake_does_not_block_the_folder_of_a_study(tmp_path: Path) -> None:
    tiny: dict[str, Any] = {
        **SMALL,
        "memories": "gru",
        "steps": 2,
        "learning_rates": (1e-3,),
        "seeds": 1,
    }
    with pytest.raises(UserError, match="did you mean 'gru'"):
        ms.study("lag", out=tmp_path / "a", **{**tiny, "memories": "gruu"})
    with pytest.raises(UserError, match="'luong' cannot take part: it does not read a stream"):
        ms.study("lag", out=tmp_path / "a", **{**tiny, "memories": "luong"})
    threads = torch.get_num_threads()
    done = ms.study("lag", out=tmp_path / "a", jobs=1, **tiny)
    assert "nothing was swept" in done.page.read_text()
    assert torch.get_num_threads() == threads
    with pytest.raises(UserError, match="jobs must be at least 1"):
        ms.study("lag", out=tmp_path / "b", jobs=0, **tiny)


def test_workers_end_with_their_study(tmp_path: Path) -> None:
    words = "study lag --steps 100000 --memories rnn,lstm --seeds 1 --learning-rates 0.001"
    command = [sys.executable, "-m", "mnemoscope", *words.split(), "--jobs", "2", "--out", "s"]
    study = subprocess.Popen(command, cwd=tmp_path)
    runs = tmp_path / "s" / "runs"
    deadline = time.monotonic() + 90
    while len(list(runs.glob("*/metrics.jsonl"))) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    study.kill()
    study.wait()
    time.sleep(2)
    sizes = [path.stat().st_size for path in sorted(runs.glob("*/metrics.jsonl"))]
    time.sleep(2)
    assert sizes == [path.stat().st_size for path in sorted(runs.glob("*/metrics.jsonl"))]
