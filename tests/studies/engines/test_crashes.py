"""A trial that crashes is tried again, then left out and reported; the others are kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny_study import Losses

import mnemoscope as ms
from mnemoscope.core.errors import UserError
from mnemoscope.studies.engines.engine import _enter
from mnemoscope.studies.study import Diverged

FAULTY = "tiny_study:Faulty"


def faulty(folder: Path, jobs: int = 2, **options) -> ms.Published:
    return ms.study(FAULTY, out=folder, jobs=jobs, trust="tiny_study", **options)


def losses(published: ms.Published) -> dict[str, float]:
    assert isinstance(published.result, Losses)
    found = published.result.losses.items()
    return {name: one.loss for name, one in found if not isinstance(one, Diverged)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    return losses(faulty(tmp_path_factory.mktemp("whole") / "s", jobs=1, times=0))


def tried(folder: Path) -> dict[str, int]:
    return {path.parent.name: len(path.read_text()) for path in folder.glob("runs/*/tried.part")}


def test_one_that_always_crashes_is_left_out_and_reported_and_tried_by_the_next_command(
    tmp_path: Path, whole: dict[str, float]
) -> None:
    folder = tmp_path / "s"
    found = faulty(folder, dying=("gru",), raising=("lstm",), times=2, retries=0)
    assert losses(found) == {"rnn": whole["rnn"]}
    assert isinstance(found.result.losses["gru"], Diverged)
    assert "RuntimeError: this trial" in found.result.losses["lstm"].diverged
    said = found.page.read_text()
    assert "What is missing" in said
    assert "The trial lstm crashed again and again, and is left out. Its last lines: " in said
    assert "RuntimeError: this trial cannot be examined" in said
    assert "The trial gru crashed again and again" in said
    assert "SIGKILL(-9)" in said
    # Once alone, and once beside another, when nobody could say whose fault it was.
    assert tried(folder) == {"gru": 2, "lstm": 1}
    (model,) = folder.glob("runs/rnn/model.safetensors")
    kept = model.stat().st_mtime_ns

    found = faulty(folder, dying=("gru",), raising=("lstm",), times=2, retries=1)
    assert losses(found) == whole
    assert model.stat().st_mtime_ns == kept
    assert "What is missing" not in found.page.read_text()
    assert json.loads((folder / "result.json").read_text())["missing"] == []


def test_when_all_crash_there_is_no_result(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"all 3 trials crashed; .* ended with:\n"):
        faulty(tmp_path / "s", jobs=1, raising=("rnn", "gru", "lstm"), retries=0)
    assert not (tmp_path / "s" / "result.json").exists()


def test_a_worker_that_does_not_see_the_folder_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot work in .* that all machines see"):
        _enter(tmp_path / "of another machine")
