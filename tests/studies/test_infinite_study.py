"""The study `infinite`, small; its page from a result made by hand; and the bound it draws."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mnemoscope as ms
from mnemoscope.core.data import from_plain, to_plain
from mnemoscope.core.errors import UserError
from mnemoscope.core.statistics import Estimate
from mnemoscope.report.document import Figure, Table
from mnemoscope.studies.infinite.page import page
from mnemoscope.studies.infinite.result import (
    KINDS,
    Attached,
    Fit,
    InfiniteResult,
    Measured,
    best_without_past,
)
from mnemoscope.studies.infinite.study import InfiniteStudy

pytest.importorskip("transformers")

from mnemoscope.studies.documents.base import small_model
from mnemoscope.studies.infinite.measure import made_up
from mnemoscope.studies.notices import collected

SMALL: dict[str, Any] = {"steps": 2, "base_steps": 2, "seeds": 2, "streams": 3, "read": 3}
SMALL |= {
    "topic_window": 8,
    "topic_basis": 8,
    "topic_read": 24,
    "window": 8,
    "basis": 8,
    "vocab_size": 12,
    "own": 3,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("infinite") / "study"
    ms.study("infinite", out=folder, jobs=1, **SMALL)
    return folder


def result_in(folder: Path) -> InfiniteResult:
    written = json.loads((folder / "result.json").read_text())
    return from_plain(InfiniteResult, written["result"])


def test_every_memory_is_weighed_on_both_texts(folder: Path) -> None:
    result = result_in(folder)
    for attached in (result.made_up, result.topics):
        assert len(attached.seeds) == 2
        for measured in attached.seeds:
            assert list(measured.fits) == list(KINDS)
            for fit in measured.fits.values():
                assert set(fit.losses) == {"own", "none", "other"}
                saved = fit.loss("none") - fit.loss("own")
                assert fit.over_none.mean == pytest.approx(saved)
                assert fit.over_none.low <= fit.over_none.mean <= fit.over_none.high
            # The model without a past is one and the same, whatever was attached to it.
            assert len({round(fit.loss("none"), 4) for fit in measured.fits.values()}) == 1
    assert "best without a state" in (folder / "report.html").read_text()


def fit(own: float, none: float, other: float, unsure: float) -> Fit:
    """A memory with these losses at the second and third token of a window."""
    over_none, over_other = none - own, other - own
    return Fit(
        {"own": (own, own), "none": (none, none), "other": (other, math.nan)},
        Estimate(over_none, over_none - unsure, over_none + unsure),
        Estimate(over_other, over_other - unsure, over_other + unsure),
        bytes=40,
        windows=9,
    )


def test_the_infinite_page_says_and_draws_the_numbers_of_the_result() -> None:
    def attached(*unsure: float, trivial: float | None = 1.6) -> Attached:
        seeds = [
            Measured({kind: fit(1.0 - 0.1 * seed, 1.5, 2.0, one) for kind in KINDS}, trivial)
            for seed, one in enumerate(unsure)
        ]
        return Attached(tuple(seeds))

    result = InfiniteResult(12, 3, 3, 8, attached(0.1, 0.55), attached(1.05, 1.15, trivial=1.4))
    again = from_plain(InfiniteResult, json.loads(json.dumps(to_plain(result))))
    assert repr(again) == repr(result)  # nan equals nothing
    lead, texts, topics = page(result)
    said = "\n".join(part for part in texts.parts if isinstance(part, str))
    best = np.mean(best_without_past(12, 3, 3)[1:])
    assert f"allows by itself is {best:.2f}. With ∞-former's signal the loss is 0.95" in said
    claims, table = (part for part in texts.parts if isinstance(part, Table))
    bound, over_none, over_other = claims.rows[:3]
    assert bound[:2] == ["∞-former's signal: better than anything without a state can be", "seen"]
    # Intervals end at 0.4 and 0.05 over none, and at 0.9 and 0.55 over another text's past.
    assert over_none[1:3] == ["seen", "0.225 (0.05 to 0.4) nats against 0.01; 2 of 2"]
    assert over_none[3] == "+0.550 (+0.500 to +0.600) nats per token"
    assert over_other[1] == "seen"
    assert "9 windows of the other half are read." in str(topics.parts[0])
    (unjudged, _) = (part for part in topics.parts if isinstance(part, Table))
    assert {row[1] for row in unjudged.rows} == {"not judged"}
    assert "passed by 0 of 2, by -0.1" in str(unjudged.rows[0][2])
    (figure,) = (part for part in lead.parts if isinstance(part, Figure))
    own = [row for row in figure.data if row["past"] == "its own state"]
    assert [(r["seed"], r["position"], r["loss"]) for r in own] == [
        (0, 2, 1.0), (0, 3, 1.0), (1, 2, 0.9), (1, 3, 0.9),
    ]  # fmt: skip
    assert list(figure.figure.data[-1].y) == pytest.approx(best_without_past(12, 3, 3)[1:])
    assert len(table.rows) == len(KINDS)
    assert table.rows[0][:3] == ["∞-former's signal", pytest.approx(0.95), 1.5]
    assert table.rows[0][4:] == [pytest.approx(0.55), pytest.approx(1.05), 40]
    for one, other in zip(page(again), (lead, texts, topics), strict=True):
        assert [p for p in one.parts if isinstance(p, str)] == [
            p for p in other.parts if isinstance(p, str)
        ]
    drawn = [part for part in page(again)[0].parts if isinstance(part, Figure)]
    assert drawn[0].figure.to_json() == figure.figure.to_json()


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
        for position, word in enumerate(rng.choice(mine, length)):
            new = (own - len(seen)) / own / (words - len(seen))
            found[position] -= math.log(1 / own if word in seen else new)
            seen.add(word)
    np.testing.assert_allclose(found / 4000, bound, atol=0.05)


def test_infinite_refuses_options_that_cannot_be() -> None:
    with pytest.raises(UserError, match="own=64 must be less than vocab_size=64"):
        InfiniteStudy.preset("quick", own=64)


def test_a_small_model_that_was_changed_is_trained_again(folder: Path, tmp_path: Path) -> None:
    home = Path(shutil.copytree(folder / "small", tmp_path / "small"))
    weights = home / "model.safetensors"
    true, mark = weights.read_bytes(), weights.stat().st_mtime_ns
    small_model(home, steps=2)
    assert weights.stat().st_mtime_ns == mark
    for damage in (true[:-1], bytes([true[0] ^ 1]) + true[1:]):
        weights.write_bytes(damage)
        with collected() as said:
            small_model(home, steps=2)
        assert weights.read_bytes() == true
        assert "the small model is trained again" in said.notices[0]
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
    before = result_in(home)
    (home / "result.json").unlink()
    (home / "fits" / "made-up-seed-1.json").write_text("{}")
    # By the names that the study and an option had in older versions.
    old = {"words" if option == "vocab_size" else option: v for option, v in SMALL.items()}
    after = ms.study("past", out=home, jobs=1, **old)
    assert after.result == before
    assert "1 of 4 trials was measured again" in after.page.read_text()
