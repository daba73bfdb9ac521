from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mnemoscope as ms
from mnemoscope.core.errors import UserError
from mnemoscope.data.sorting import Sorting
from mnemoscope.studies.sizes import count
from mnemoscope.studies.sorting.attention import look
from mnemoscope.studies.sorting.page import scores
from mnemoscope.studies.sorting.study import (
    CONTENDERS,
    SortingStudy,
    chance,
    counting_oracle,
    speak,
)

TINY: dict[str, Any] = {
    "symbols": 4,
    "trained": (32,),
    "tested": (16, 32, 64),
    "width": 8,
    "heads": 2,
    "segment": 8,
    "carried": 8,
    "steps": 3,
    "batch": 4,
    "seeds": 2,
    "episodes": 8,
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ms.api.Published]:
    folder = tmp_path_factory.mktemp("study") / "sorting"
    return folder, ms.study("sorting", out=folder, jobs=1, **TINY)


def test_the_page_has_every_figure_and_who_took_part(
    finished: tuple[Path, ms.api.Published],
) -> None:
    folder, published = finished
    page = published.page.read_text()
    for _, label in CONTENDERS.values():
        assert label in page
    names = {path.stem for path in (folder / "figures").glob("*.csv")}
    assert {
        "teacher-forced-trained-at-32",
        "speaking-freely-trained-at-32",
        "attention-by-age",
        "places-of-looks",
        "widths-of-looks",
        "sticky-attention-over-time",
    } <= names
    assert len(published.result["trials"]) == 2 * len(CONTENDERS)


def test_states_have_the_same_size(finished: tuple[Path, ms.api.Published]) -> None:
    sizes = {m: f["state_bytes"] for m, f in finished[1].result["models"].items()}
    vectors = 2 * 8 * 8 * 4  # layers, vectors, width, bytes
    assert sizes["transformer_xl"] == sizes["compressive"] == vectors
    assert sizes["equal"] == sizes["fixed"] == vectors + 2 * 8  # and a count in each layer
    paper = SortingStudy.preset("paper")
    short = {name: paper._memory(name) for name in CONTENDERS}
    assert {sum(v for k, v in m.items() if k in ("mem_len", "compressed", "basis"))
            for m in short.values()} == {1536}  # fmt: skip


def test_a_second_run_trains_nothing(finished: tuple[Path, ms.api.Published]) -> None:
    folder, published = finished
    marks = {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/examined.json")}
    (folder / "result.json").unlink()
    again = ms.study("sorting", out=folder, jobs=1, **TINY)
    same = {key: value for key, value in again.result.items() if key not in ("made", "seal")}
    before = {key: value for key, value in published.result.items() if key not in ("made", "seal")}
    assert json.loads(json.dumps(same)) == json.loads(json.dumps(before))
    assert {path: path.stat().st_mtime_ns for path in marks} == marks


def test_attention_by_age_is_a_distribution_and_a_cache_ends(
    finished: tuple[Path, ms.api.Published],
) -> None:
    folder, _ = finished
    for name in CONTENDERS:
        seen = look(folder / "runs" / f"{name}-32-seed0", 64, 4, 8)
        assert seen.by_age.shape == (8,)
        assert seen.by_age.sum() == pytest.approx(1)
        if name == "transformer_xl":
            assert seen.by_age[0] == pytest.approx(1)  # the cache holds one segment
        if name == "equal":
            assert (seen.by_age > 0.02).all()  # every segment has its part
            assert seen.over_time.shape[0] == 8


@pytest.mark.parametrize(
    ("length", "tokens", "expected"),
    [(4000, 4000, 0.981), (4000, 2048, 0.447), (4000, 1024, 0.369), (8000, 1024, 0.339)],
)
def test_counting_oracles_are_where_simulation_put_them(
    length: int, tokens: int, expected: float
) -> None:
    assert counting_oracle(Sorting.make(length=length), tokens, 200) == pytest.approx(
        expected, abs=0.025
    )


def test_guessing_among_what_is_left_gives_chance() -> None:
    assert chance(20) == pytest.approx(0.18, abs=0.001)
    rng, right, episodes = np.random.default_rng(0), 0, 4000
    for _ in range(episodes):
        left = list(range(5))
        for correct in rng.permutation(5):
            right += int(rng.choice(left) == correct)
            left.remove(correct)
    assert right / (5 * episodes) == pytest.approx(chance(5), abs=0.015)


def test_speaking_freely_reads_its_own_answers() -> None:
    """A model that says one thing whatever it reads is right once a stream."""
    model = ms.build("transformer_xl", vocab=5, width=8, heads=2, mem_len=8).eval()
    with torch.no_grad():
        model.readout.weight.zero_()
        model.readout.bias.copy_(torch.tensor([0.0, 9.0, 0.0, 0.0, 0.0]))
    assert speak(model, Sorting.make(symbols=4, length=20), 2, 8, 8) == pytest.approx(0.25)


def test_a_diverged_training_counts_as_chance() -> None:
    result = {
        "chance": 0.3,
        "tested": [1, 2],
        "trials": [{"model": "transformer_xl", "trained": 4, "seed": 0, "diverged": "…"}],
    }
    assert scores(result, "transformer_xl", 4, "forced").tolist() == [[0.3, 0.3]]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"memories": "xl,stickyy"}, "did you mean 'sticky'"),
        ({"tested": "8,4"}, "increasing"),
        ({"recent": 99}, "leaves nothing"),
    ],
)
def test_mistakes_are_said_before_anything_runs(
    options: dict[str, Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=says):
        ms.study("sorting", out=tmp_path / "a", **options)
    assert not (tmp_path / "a").exists()


def test_every_contender_of_every_preset_can_be_built() -> None:
    for preset in SortingStudy.presets:
        study = SortingStudy.preset(preset)
        for name in CONTENDERS:
            assert count(study._config(name, study.trained[0], 0).model) > 0
