"""The study `waves`, small: every kind is measured as it trains, every claim is computed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mnemoscope as ms
from mnemoscope.core.data import from_plain, to_plain
from mnemoscope.core.errors import UserError
from mnemoscope.lenses.waves.claims import survival_claims
from mnemoscope.lenses.waves.lens import Waves
from mnemoscope.lenses.waves.page import sections
from mnemoscope.lenses.waves.summary import summary
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
STUDY = "waves"


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
            # All that was tried at its end is there, and nothing that no page shows.
            assert one.final.filters.entropy > 0
            assert one.final.shift is not None
            assert (one.final.propagation is None) == (kind in ("rotary", "none"))
    assert len(json.dumps(to_plain(result))) < 9_000 * len(result.trials)
    drawn = published.page.read_text()
    assert "Attention of the strongest head, MLM" in drawn
    assert (published.page.parent / "figures" / "loss-without-a-band-lm.csv").is_file()
    # Two checkpoints differ, so their weights were really read.
    (one,) = result.examined("MLM", "learned")
    assert one.checkpoints[0].attention != one.checkpoints[1].attention


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
    table, figure = (part(again, name) for name in ("What was trained", "Loss without a band, LM"))
    row = next(row for row in table.rows if row[:2] == ["MLM", "rotary"])
    (one,) = result.examined("MLM", "rotary")
    assert row[2] == one.last.loss
    assert row[3] == np.max(one.last.relative)
    assert row[-1] == 0
    (one,) = result.examined("LM", "learned")
    rows = [row for row in figure.data if row["positions"] == "learned"]
    assert [row["stop"] for row in rows] == list(one.final.filters.change["stop"])
    assert f"learned {one.final.filters.change['stop'][-1]:+.2f} (most by" in " ".join(
        text
        for section in page(again)
        if section.title == "Bands taken out"
        for text in section.parts
        if isinstance(text, str)
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


def passing(result: WavesResult, entropy: float = 99.0) -> WavesResult:
    """The same result where models beat frequencies, or do not."""

    def passed(one: Examined | None) -> Examined:
        assert one is not None
        filters = replace(one.final.filters, entropy=entropy)
        return replace(one, final=replace(one.final, filters=filters))

    trials = [replace(trial, examined=passed(trial.examined)) for trial in result.trials]
    return replace(result, trials=tuple(trials))


def test_claims_are_computed_from_the_numbers(published):
    def verdicts(result: WavesResult) -> dict[str, str]:
        return {one.text: one.verdict for one in claims(result)}

    result = passing(published.result)
    for objective in ("LM", "MLM"):
        (one,) = result.examined(objective, "learned")
        result = with_last(result, objective, "learned", **with_wave(one.last, 9.0))
    assert verdicts(result)["Learned positions become waves"] == "seen"
    assert verdicts(passing(result, 0.0))["Learned positions become waves"] == "not judged"
    result = with_last(result, "MLM", "learned", **with_wave(one.last, 1.0))
    assert verdicts(result)["Learned positions become waves"] == "unclear"
    relative = tuple((0.9,) * len(row) for row in one.last.relative)
    result = with_last(result, "MLM", "learned", relative=relative)
    text = "Without positions a model that sees both ways has no relative scores"
    assert verdicts(result)[text] == "seen"
    result = with_last(result, "MLM", "none", relative=relative)
    assert verdicts(result)[text] == "not seen"


def test_who_takes_the_waves_away_is_told_by_energies(published):
    final = passing(published.result).examined("LM", "learned")[0].final
    top = replace(final.propagation[-1], kept=0.5)
    norms = tuple(replace(norm, whole=0.97, measured=0.99) for norm in final.norm_fits)
    seen = replace(final, propagation=(*final.propagation[:-1], top), norm_fits=norms)
    told = {one.text: one for one in survival_claims(seen)}
    assert told["S breaks the waves"].verdict == "not seen"
    assert told["The model discards them"].effects == [0.75]
    assert told["The model discards them"].verdict == "seen"
    # Losses that are not measured alike are not compared.
    assert len(told) == 3


def test_a_result_of_an_older_version_is_read_and_cut(published):
    plain = to_plain(published.result.examined("MLM", "learned")[0])
    expected = json.loads(json.dumps(plain))
    count = len(plain["checkpoints"][0]["offsets"])
    for one in plain["checkpoints"]:
        queries, attention = one.pop("queries"), one.pop("attention")
        flat = [[[0.0] * count for _ in row] for row in one["relative"]]
        layer, head = np.unravel_index(np.argmax(one["relative"]), np.shape(one["relative"]))
        flat[layer][head] = attention
        one["measured"], one["power"] = flat, [queries for _ in one["sites"]]
    for name in ("norm_fits", "shift"):
        del plain["final"][name]
    again = from_plain(Examined, plain)
    assert to_plain(again)["checkpoints"] == expected["checkpoints"]
    assert again.final.shift is None


def test_a_site_without_variance_by_position_has_no_wave(published):
    (one,) = published.result.examined("MLM", "none")
    count = len(one.last.sites)
    sharp = replace(one.last, sharpness=(99.0,) * count, share=(0.001,) * count)
    assert sharp.with_waves == ()
    assert replace(sharp, share=(0.02,) * count).with_waves == sharp.sites


@pytest.mark.parametrize("kind", ["learned", "rotary", "none"])
def test_one_model_alone_has_its_sections(kind: str):
    model = ms.build("encoder", vocab=9, width=8, heads=2, layers=1, positions=kind, context=32)
    lens = Waves(length=32, texts=8, window=16, filtered=4, paper=1)
    lens.observe(model, torch.randint(9, (8, 32)), silent=True)
    told = sections(summary(lens.result()), kind)
    assert len(told) == 5
    words = " ".join(part for one in told for part in one.parts if isinstance(part, str))
    assert ("there are none to follow" in words) == (kind != "learned")
    assert ("Does S break the waves" in words) == (kind == "learned")
    assert ("Rotary positions turn" in words) == (kind == "rotary")
    names = [part.name for one in told for part in one.parts if not isinstance(part, str)]
    assert f"Columns of queries and keys, {kind}" in names
    assert f"Attention that follows a shift, {kind}" in names


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
