"""The study `past`, small; and the bound that its figure is drawn against."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mnemoscope as ms
from mnemoscope.core.errors import UserError

pytest.importorskip("transformers")

from mnemoscope.studies.documents.base import small_model
from mnemoscope.studies.infinite.fits import best_without_past, made_up
from mnemoscope.studies.infinite.study import KINDS, TEXTS, InfiniteStudy
from mnemoscope.studies.notices import collected

SMALL: dict[str, Any] = {"steps": 2, "base_steps": 2, "seeds": 2, "streams": 3, "read": 3}
SMALL |= {
    "topic_window": 8,
    "topic_basis": 8,
    "topic_read": 24,
    "window": 8,
    "basis": 8,
    "words": 12,
    "own": 3,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("past") / "study"
    ms.study("past", out=folder, jobs=1, **SMALL)
    return folder


def test_every_memory_is_weighed_on_both_texts(folder: Path) -> None:
    result = json.loads((folder / "result.json").read_text())
    assert list(result["fits"]) == [f"{text} {kind}" for text in TEXTS for kind in KINDS]
    for fits in result["fits"].values():
        assert len(fits) == 2
        for fit in fits:
            assert set(fit["losses"]) == {"own", "none", "other"}
            mean, low, high = fit["over none"]
            assert low <= mean <= high
    # The model without a past is one and the same, whatever was attached to it.
    for text in TEXTS:
        alone = {round(result["fits"][f"{text} {kind}"][0]["losses"]["none"], 4) for kind in KINDS}
        assert len(alone) == 1
    page = (folder / "report.html").read_text()
    assert "best that no past allows" in page


def test_made_up_texts_keep_to_their_words() -> None:
    study = InfiniteStudy.preset("quick")
    texts = made_up(study, 5, 400, 0, "a")
    assert all(len(set(row)) == study.own for row in texts.tolist())
    assert not bool((texts == made_up(study, 5, 400, 0, "b")).all())


def test_the_bound_is_that_of_an_observer_who_counts() -> None:
    words, own, length = 12, 3, 6
    bound = best_without_past(words, own, length)
    assert bound[0] == pytest.approx(math.log(words))
    assert bound == sorted(bound, reverse=True)
    assert bound[-1] > math.log(own)
    rng = np.random.default_rng(0)
    found = np.zeros(length)
    for _ in range(4000):
        mine = rng.choice(words, own, replace=False)
        seen: set[int] = set()
        for place, word in enumerate(rng.choice(mine, length)):
            new = (own - len(seen)) / own / (words - len(seen))
            found[place] -= math.log(1 / own if word in seen else new)
            seen.add(word)
    np.testing.assert_allclose(found / 4000, bound, atol=0.05)


def test_options_that_cannot_be() -> None:
    with pytest.raises(UserError, match="own=64 must be less than words=64"):
        InfiniteStudy.preset("quick", own=64)


def test_a_small_model_that_was_changed_is_trained_again(folder: Path, tmp_path: Path) -> None:
    home = Path(shutil.copytree(folder / "small", tmp_path / "small"))
    weights = home / "model.safetensors"
    true, mark = weights.read_bytes(), weights.stat().st_mtime_ns
    small_model(home, steps=2)
    assert weights.stat().st_mtime_ns == mark
    for damage in (true[:-1], bytes([true[0] ^ 1]) + true[1:]):
        weights.write_bytes(damage)
        with collected() as notices:
            small_model(home, steps=2)
        assert weights.read_bytes() == true
        assert "the small model is trained again" in notices[0]
    (home / "sealed.json").write_bytes(b"\xff")
    small_model(home, steps=2)
    # A folder without a seal is of an older version, or was cut off.
    (home / "sealed.json").unlink()
    mark = weights.stat().st_mtime_ns
    small_model(home, steps=2)
    assert weights.stat().st_mtime_ns == mark
    weights.unlink()
    (home / "letter.txt").write_text("mine")
    small_model(home, steps=2)
    assert weights.read_bytes() == true
    assert (home / "letter.txt").read_text() == "mine"


def test_a_fit_that_was_changed_is_measured_again(folder: Path, tmp_path: Path) -> None:
    home = Path(shutil.copytree(folder, tmp_path / "study"))
    before = json.loads((home / "result.json").read_text())
    (home / "result.json").unlink()
    (home / "fits" / "made-up-seed-1.json").write_text("{}")
    after = ms.study("past", out=home, jobs=1, **SMALL)
    assert after.result["fits"] == before["fits"]
    assert "1 of 4 trials was measured again" in after.page.read_text()
