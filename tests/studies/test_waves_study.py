"""The study `waves`, small: every kind is measured as it trains, every claim is computed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mnemoscope as ms
from mnemoscope.core.data import from_plain, to_plain
from mnemoscope.core.errors import UserError
from mnemoscope.lenses.waves.page import sections
from mnemoscope.report.document import Figure, Table
from mnemoscope.studies.waves.claims import claims
from mnemoscope.studies.waves.page import page
from mnemoscope.studies.waves.result import Checkpoint, Examined, WavesResult
from mnemoscope.studies.waves.study import WavesStudy

SMALL: dict[str, Any] = {
    "steps": 4,
    "checkpoints": 2,
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


def test_every_kind_is_measured_as_it_trains(published):
    result = published.result
    assert len(result.trials) == 2 * 4
    for objective in ("LM", "MLM"):
        for kind in result.positions:
            (one,) = result.examined(objective, kind)
            run = one.checkpoints
            assert [checkpoint.step for checkpoint in run] == [0, 2, 4]
            assert (run[0].rotary is not None) == (kind == "rotary")
            assert run[0].loss is None
            assert one.last.loss > 0
            # At its end a model is the same whether it is measured in short or in full.
            assert one.final.relative == one.last.relative
    drawn = published.page.read_text()
    assert "Attention of the strongest head, MLM" in drawn
    assert (published.page.parent / "figures" / "what-a-band-is-worth-lm.csv").is_file()
    # Two checkpoints differ, so their weights were really read.
    (one,) = result.examined("MLM", "learned")
    assert one.checkpoints[0].measured != one.checkpoints[1].measured


def part(result: WavesResult, name: str) -> Figure | Table:
    """The figure or table of that name."""
    return next(
        one for section in page(result) for one in section.parts
        if not isinstance(one, str) and one.name == name
    )  # fmt: skip


def test_the_page_is_drawn_from_json_and_has_its_numbers(published):
    result = published.result
    plain = to_plain(result)
    again = from_plain(WavesResult, json.loads(json.dumps(plain)))
    assert to_plain(again) == plain
    assert [one.title for one in page(again)] == [one.title for one in page(result)]
    table, figure = (part(again, name) for name in ("What was trained", "What a band is worth, LM"))
    row = next(row for row in table.rows if row[:2] == ["MLM", "rotary"])
    (one,) = result.examined("MLM", "rotary")
    assert row[2] == one.last.loss
    assert row[3] == np.max(one.last.relative)
    assert row[-1] == 0
    (one,) = result.examined("LM", "learned")
    rows = [row for row in figure.data if row["positions"] == "learned"]
    assert [row["stop"] for row in rows] == list(one.final.filters.change["stop"])
    assert f"learned {one.final.filters.change['stop'][-1]:+.2f} (most by" in " ".join(
        text for text in page(again)[3].parts if isinstance(text, str)
    )


def test_a_training_of_waves_that_diverged_is_left_out(published):
    result = published.result
    lost = replace(result.of("LM", "none")[0], seed=1, examined=None)
    table = part(replace(result, trials=(*result.trials, lost)), "What was trained")
    assert [row[-1] for row in table.rows if row[:2] == ["LM", "none"]] == [1]
    assert [row[-1] for row in table.rows if row[:2] == ["LM", "learned"]] == [0]


def with_last(result: WavesResult, objective: str, kind: str, **changes: Any) -> WavesResult:
    """The same result with other numbers at the end of one kind of training."""

    def changed(one: Examined | None) -> Examined:
        assert one is not None
        last = replace(one.last, **changes)
        return replace(one, checkpoints=(*one.checkpoints[:-1], last))

    trials = [
        replace(trial, examined=changed(trial.examined))
        if (trial.objective, trial.positions) == (objective, kind)
        else trial
        for trial in result.trials
    ]
    return replace(result, trials=tuple(trials))


def with_wave(checkpoint: Checkpoint, sharpness: float) -> dict[str, tuple[float, ...]]:
    """Numbers of a checkpoint whose embeddings have a wave of that sharpness."""
    first = {"sharpness": sharpness, "sharpness_null": 2.0, "words_sharpness": 1.5, "share": 0.5}
    return {name: (one, *getattr(checkpoint, name)[1:]) for name, one in first.items()}


def test_claims_are_computed_from_the_numbers(published):
    def verdicts(result: WavesResult) -> dict[str, str]:
        return {row[0]: row[1] for row in claims(result)}

    result = published.result
    for objective in ("LM", "MLM"):
        (one,) = result.examined(objective, "learned")
        result = with_last(result, objective, "learned", **with_wave(one.last, 9.0))
    assert verdicts(result)["Learned positions become waves"] == "seen, 2 of 2"
    result = with_last(result, "MLM", "learned", **with_wave(one.last, 1.0))
    assert verdicts(result)["Learned positions become waves"] == "unclear, 1 of 2"
    relative = tuple((0.4,) * len(row) for row in one.last.relative)
    result = with_last(result, "MLM", "none", relative=relative)
    told = verdicts(result)["Without positions a model that sees both ways has no relative scores"]
    assert told == "not seen, 0 of 1"


def test_a_site_without_variance_by_position_has_no_wave(published):
    (one,) = published.result.examined("MLM", "none")
    count = len(one.last.sites)
    sharp = replace(one.last, sharpness=(99.0,) * count, share=(0.001,) * count)
    assert sharp.with_waves == ()
    assert replace(sharp, share=(0.02,) * count).with_waves == sharp.sites


def test_one_model_alone_has_its_sections(published):
    for kind in ("learned", "rotary", "none"):
        (one,) = published.result.examined("LM", kind)
        told = sections(one.final, kind)
        assert len(told) == 5
        words = " ".join(part for one in told for part in one.parts if isinstance(part, str))
        assert ("there are none to follow" in words) == (kind != "learned")
        assert ("Rotary positions turn" in words) == (kind == "rotary")


def test_a_text_can_be_learnt_and_a_real_model_measured(tmp_path: Path):
    (tmp_path / "text.txt").write_text("the cat saw the dog and the dog saw the cat. " * 60)
    run = ms.train(
        "text", "transformer", tmp_path / "run", source=str(tmp_path / "text.txt"),
        unit="characters",
        width=8, layers=1, heads=2, steps=1, segment=16,
    )  # fmt: skip
    done = ms.study(
        "waves", out=tmp_path / "s", jobs=1,
        **{**SMALL, "steps": 1, "checkpoints": 1, "positions": "none", "real": str(run.folder)},
        source=str(tmp_path / "text.txt"), real_length=40, real_texts=8,
    )  # fmt: skip
    assert done.result.real.model == "run"
    assert "Heads: run" in done.page.read_text()


def test_options_of_waves_that_cannot_be():
    with pytest.raises(UserError, match="named twice"):
        WavesStudy.preset("quick", positions="learned,learned")
    with pytest.raises(UserError, match="did you mean 'positions'"):
        WavesStudy.preset("quick", position="learned")
    with pytest.raises(UserError, match="greater than or equal to 24"):
        WavesStudy.preset("quick", length=8)
