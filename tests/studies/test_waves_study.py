from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest

import mnemoscope as ms
from mnemoscope.core.errors import UserError
from mnemoscope.lenses.spectrum.page import above_null
from mnemoscope.lenses.waves.page import sections
from mnemoscope.studies.waves.claims import claims, finals, looks
from mnemoscope.studies.waves.study import WavesStudy

SMALL = {
    "steps": 4,
    "looks": 2,
    "layers": 1,
    "width": 8,
    "heads": 2,
    "length": 32,
    "batch": 4,
    "texts": 8,
    "seeds": 1,
    "real": "none",
}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> ms.Published:
    out = tmp_path_factory.mktemp("studies") / "waves"
    return ms.study("waves", out=out, jobs=1, **SMALL)


def test_every_kind_is_looked_at_as_it_trains(published):
    result = published.result
    assert len(result["trials"]) == 2 * 4
    for objective in ("LM", "MLM"):
        for kind in result["positions"]:
            (run,) = looks(result, objective, kind)
            assert [one["step"] for one in run] == [0, 2, 4]
            assert ("rotary" in run[0]) == (kind == "rotary")
            assert run[0]["loss"] is None
            assert run[-1]["loss"] > 0
    page = published.page.read_text()
    assert "Where the strongest head looks, MLM" in page
    assert (published.page.parent / "figures" / "what-a-band-is-worth-lm.csv").is_file()
    # Two looks differ, so the weights of the checkpoints were really read.
    (run,) = looks(result, "MLM", "learned")
    assert run[0]["measured"] != run[1]["measured"]


def test_claims_are_computed_from_the_numbers(published):
    result = copy.deepcopy(published.result)

    def verdicts() -> dict[str, str]:
        return {row[0]: row[1] for row in claims(result)}

    for objective in ("LM", "MLM"):
        (one,) = finals(result, objective, "learned")
        one["sharpness"][0], one["sharpness_null"][0], one["words_sharpness"][0] = 9.0, 2.0, 1.5
        one["share"][0] = 0.5
    assert verdicts()["Learned positions become waves"] == "seen, 2 of 2"
    one["sharpness"][0] = 1.0
    assert verdicts()["Learned positions become waves"] == "unclear, 1 of 2"
    (one,) = finals(result, "MLM", "none")
    one["relative"] = np.full_like(one["relative"], 0.4).tolist()
    told = verdicts()["Without positions a model that sees both ways has no relative scores"]
    assert told == "not seen, 0 of 1"


def test_a_place_without_variance_by_position_has_no_wave(published):
    (one,) = finals(copy.deepcopy(published.result), "MLM", "none")
    one["sharpness"] = [99.0] * len(one["sites"])
    one["share"] = [0.001] * len(one["sites"])
    assert above_null(one) == []


def test_one_model_alone_has_its_sections(published):
    for kind in ("learned", "rotary", "none"):
        row = next(r for r in published.result["trials"] if r["positions"] == kind)
        told = sections(row["final"], kind)
        assert len(told) == 5
        words = " ".join(part for one in told for part in one.parts if isinstance(part, str))
        assert ("there are none to follow" in words) == (kind != "learned")
        assert ("Rotary positions turn" in words) == (kind == "rotary")


def test_a_text_can_be_learnt_and_a_real_model_looked_at(tmp_path: Path):
    (tmp_path / "text.txt").write_text("the cat saw the dog and the dog saw the cat. " * 60)
    run = ms.train(
        "text", "transformer", tmp_path / "run", source=str(tmp_path / "text.txt"),
        unit="characters",
        width=8, layers=1, heads=2, steps=1, segment=16,
    )  # fmt: skip
    done = ms.study(
        "waves", out=tmp_path / "s", jobs=1,
        **{**SMALL, "steps": 1, "looks": 1, "positions": "none", "real": str(run.folder)},
        source=str(tmp_path / "text.txt"), real_length=40, real_texts=8,
    )  # fmt: skip
    assert done.result["real"]["model"] == "run"
    assert "Heads: run" in done.page.read_text()


def test_mistakes_are_explained():
    with pytest.raises(UserError, match="named twice"):
        WavesStudy.preset("quick", positions="learned,learned")
    with pytest.raises(UserError, match="did you mean 'positions'"):
        WavesStudy.preset("quick", position="learned")
    with pytest.raises(UserError, match="greater than or equal to 24"):
        WavesStudy.preset("quick", length=8)
