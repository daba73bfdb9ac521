"""The study `documents`, small: every question has its section, a stopped study continues."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mnemoscope as ms
from mnemoscope.core.bounded import read_sealed
from mnemoscope.core.data import from_plain, to_plain
from mnemoscope.core.errors import UserError
from mnemoscope.report.document import Figure, Table

transformers = pytest.importorskip("transformers")

from mnemoscope.studies.documents.base import cut, halves  # noqa: E402
from mnemoscope.studies.documents.measurements import shape_of  # noqa: E402
from mnemoscope.studies.documents.page import page  # noqa: E402
from mnemoscope.studies.documents.result import DocumentsResult, Fit, Shape, Trained  # noqa: E402
from mnemoscope.studies.documents.settings import (  # noqa: E402
    ALL_ON,
    FIXED,
    FREE,
    GUIDED,
    MASKS,
    RANDOM,
    Setting,
    masked,
    moving,
)
from mnemoscope.studies.documents.study import DocumentsStudy  # noqa: E402
from mnemoscope.studies.folder import revive  # noqa: E402
from mnemoscope.studies.sentences import said  # noqa: E402

SMALL: dict[str, Any] = {"documents": 3, "entries": 8, "epochs": 3, "base_steps": 3, "seeds": 1}
SMALL |= {"segments": 1, "layers": (0, 3), "many": (4,), "many_epochs": 1, "counts": (4, 6)}
QUESTIONS = 13


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documents")
    ms.study("documents", out=folder / "study", jobs=1, **SMALL)
    return folder / "study"


def stored(folder: Path) -> DocumentsResult:
    """The result as it lies in the folder."""
    found = revive(json.loads((folder / "result.json").read_text()), DocumentsResult).result
    assert isinstance(found, DocumentsResult)
    return found


def changed(result: DocumentsResult, setting: Setting, seeds: list[dict[str, Any]]) -> Trained:
    """The first training of a setting with other numbers, once for each seed."""
    first = result.of(setting)[0]
    return Trained(setting, tuple(replace(first, **one) for one in seeds))


def with_seeds(result: DocumentsResult, numbers: dict[Setting, dict[str, Any]]) -> DocumentsResult:
    """Three seeds of everything; ``numbers`` are of `Fit`, three each."""
    trained = tuple(
        changed(
            result,
            one.setting,
            [{k: v[seed] for k, v in numbers.get(one.setting, {}).items()} for seed in range(3)],
        )
        for one in result.trained
    )
    return replace(result, trained=trained)


def texts(result: DocumentsResult, question: int) -> str:
    """The paragraphs of one section."""
    return " ".join(part for part in page(result)[question + 1].parts if isinstance(part, str))


def part(result: DocumentsResult, name: str) -> Figure | Table:
    """The figure or table of that name."""
    return next(
        one for section in page(result) for one in section.parts
        if not isinstance(one, str) and one.name == name
    )  # fmt: skip


def test_every_question_has_its_section(folder: Path) -> None:
    result = stored(folder)
    _, claims, *sections = page(result)
    assert [section.title.split(" ·")[0] for section in sections] == [
        str(number + 1) for number in range(QUESTIONS)
    ]
    assert claims.title == "What is seen, and by how much"
    drawn = (folder / "report.html").read_text()
    assert '"frames": [' in drawn or '"frames":[' in drawn
    for setting in (*map(masked, MASKS), FREE, FIXED):
        assert len(result.of(setting)) == 1
    (every_on,) = result.of(ALL_ON)
    assert every_on.right == pytest.approx(every_on.wrong, abs=1e-5)


def test_a_result_of_documents_goes_to_json_and_back(folder: Path) -> None:
    result = stored(folder)
    again = from_plain(DocumentsResult, json.loads(json.dumps(to_plain(result))))
    assert again == result
    # What is measured in addition is no part of what tells settings apart, but it is kept.
    assert [one.setting.measures for one in again.trained] == [
        one.setting.measures for one in result.trained
    ]


def test_the_page_has_the_numbers_of_its_seeds(folder: Path) -> None:
    numbers = {
        FREE: {
            "named": (1.0,) * 3,
            "none": (4.0, 4.5, 5.0),
            "wrong": (4.5, 5.0, 4.75),
            "right": (1.0, 1.5, 2.0),
        },
        RANDOM: {"wrong": (4.25, 4.5, 6.0), "right": (1.0, 1.0, 1.0)},
        GUIDED: {"none": (4.0,) * 3, "right": (1.0,) * 3, "named": (1.0,) * 3}
        | {"later_none": (3.0, 3.0, 3.0), "later_right": (3.5, 4.0, 3.75), "tau": (6, 7, 8)},
    }
    result = with_seeds(stored(folder), numbers)
    told = texts(result, 1)
    assert "Without memory the loss is 4.50 (4.00 to 5.00)." in told
    assert "Without guidance the wrong document gives 4.75 (4.50 to 5.00), with random" in told
    assert "nobody learnt 4.92 (4.25 to 6.00), with guidance" in told
    assert "where τ asked for 7.00" in told
    # It is worse than no memory by 0.5, 0.5 and -0.25 nats: not in every training.
    worse = "worse than no memory: unclear (0.25 (-0.25 to 0.5) nats per token against 0.1; 2 of 3)"
    assert worse in told
    assert "gains too: opposite (-0.75 (-1 to -0.5) nats per token against 0.1; 0 of 3)" in told
    table = part(result, "Which document is identified")
    row = next(row for row in table.rows if row[0] == "unguided")
    assert row[1:3] == [1.5, 4.75]
    figure = part(result, "Right, wrong and random document")
    rows = [row for row in figure.data if row["setting"] == "tanh α=0"]
    assert [(row["seed"], row["right"]) for row in rows] == [(0, 1.0), (1, 1.5), (2, 2.0)]
    # Drawn again, it is the same.
    assert texts(result, 1) == told


def test_a_negative_gate_says_the_contrary_only_where_every_seed_does(folder: Path) -> None:
    result = stored(folder)
    gates = result.each(GUIDED, lambda fit: fit.gates)[0]
    turned = [{**gates, "negatives made positive": loss} for loss in (6.0, 6.5, 7.0)]
    learnt = {"right": (1.0,) * 3, "named": (1.0,) * 3, "gates": turned}
    sure = {**learnt, "none": (4.0, 4.5, 5.0)}
    told = texts(with_seeds(result, {GUIDED: sure}), 8)
    assert "making them positive gives 6.50 (6.00 to 7.00)" in told
    assert "no memory at all has 4.50 (4.00 to 5.00). A negative gate says the contrary" in told
    assert "worse than no memory: seen (2 (2 to 2) nats per token against 0.1; 3 of 3)" in told
    unsure = {**learnt, "none": (4.0, 4.5, 7.5)}
    assert "worse than no memory: unclear" in texts(with_seeds(result, {GUIDED: unsure}), 8)
    # Of a memory that learnt nothing, or tells nobody apart, nothing is said.
    for key, values in {"right": (1.0, 1.0, 4.9), "named": (1.0, 1.0, 1 / 3)}.items():
        told = texts(with_seeds(result, {GUIDED: {**sure, key: values}}), 8)
        assert "worse than no memory: not judged" in told


def test_representations_leave_their_paths(folder: Path) -> None:
    result = stored(folder)
    for setting, size in ((GUIDED, result.key_dim), (moving("random", 2), 2)):
        (fit,) = result.of(setting)
        assert fit.paths is not None
        points = np.array(fit.paths.points)
        assert points.shape == (len(fit.paths.steps), result.documents, 2)
        assert fit.paths.moved[0] == 0 < fit.paths.moved[-1] <= fit.moved * 2
        assert fit.paths.shown == 1 if size == 2 else 0 < fit.paths.shown <= 1
    assert part(result, "Paths of representations, random, 2 numbers").data
    assert part(result, "How far representations have gone").data
    table = part(result, "Size of representations against number of documents")
    assert [row[:3] for row in table.rows[:4]] == [
        ["orthogonal", 3, 2], ["orthogonal", 3, 16], ["orthogonal", 3, 128], ["orthogonal", 4, 2]
    ]  # fmt: skip
    # However many documents there are, they have as many steps.
    assert {result.of(moving("random", 2, count))[0].steps for count in (None, 4, 6)} == {3}


def test_every_block_has_random_negatives_too(folder: Path) -> None:
    result = stored(folder)
    assert "with random negatives block" in texts(result, 4).lower()
    rows = part(result, "Blocks and controls").rows
    assert ["α = 0.1, random negatives", "right"] in [row[:2] for row in rows]


def test_older_results_have_no_paths_and_are_drawn(folder: Path) -> None:
    result = stored(folder)
    plain = to_plain(replace(result, trained=()))
    del plain["counts"]
    plain["trained"] = [
        to_plain(one) for one in result.trained
        if one.setting.count is None and "negatives" not in one.setting.name
    ]  # fmt: skip
    for one in plain["trained"]:
        del one["setting"]["count"]
        for fit in one["fits"]:
            del fit["paths"]
            if fit["split"]:
                del fit["split"]["rival"]
                fit["split"]["raised"] = fit["split"].pop("over_average")
                fit["split"]["lowered"] = fit["split"].pop("average")
    older = from_plain(DocumentsResult, plain)
    assert len(page(older)) == QUESTIONS + 2
    gains = [result.each(GUIDED, lambda fit: fit.split)[0].gain,
             older.each(GUIDED, lambda fit: fit.split)[0].gain]  # fmt: skip
    assert np.array_equal(gains[0], gains[1])


def test_a_stopped_study_goes_on(folder: Path) -> None:
    before = stored(folder)
    (folder / "result.json").unlink()
    lost = next((folder / "fits").glob("tanh*seed-0.json"))
    kept = read_sealed(lost, "")["values"]
    lost.unlink()
    ms.study("documents", out=folder, jobs=1, **SMALL)
    for one, two in zip(before.trained, stored(folder).trained, strict=True):
        assert one.setting == two.setting
        for left, right in zip(one.fits, two.fits, strict=True):
            assert replace(left, seconds=0.0) == replace(right, seconds=0.0)
    assert read_sealed(lost, "")["values"]["right"] == kept["right"]


def test_a_fit_of_an_older_version_is_read(folder: Path) -> None:
    (fit,) = stored(folder).of(GUIDED)
    older = to_plain(fit)
    for name in ("later_right", "later_none", "selection_moved", "unrelated_none"):
        older[name.replace("_", " ")] = older.pop(name)
    older["apart / length"] = fit.apart_by_length
    assert from_plain(Fit, older) == fit


def test_files_have_the_names_that_older_versions_gave_them() -> None:
    study = DocumentsStudy.preset("quick")
    names = list(study.trainings())
    assert len(names) == len(set(names)) == 267
    for name in (
        "tanh α=0 seed 2", "plane tanh α=0 seed 0", "lengths sigmoid seed 1", "fixed seed 0",
        "control bias seed 2", "layer 0 seed 0", "layer 2 α=0 seed 0", "layer 1 random seed 0",
        "move small 16 seed 0", "move sgd 128 seed 0", "depth 4 seed 0", "depth 4 α=0 seed 0",
        "depth 1 other seed 0", "encoder shingles seed 0", "negative hardest seed 0",
        "layer 3 random negatives seed 0", "move random 128 of 40 seed 2",
        "many 20 seed 1", "many 100 α=0 seed 1", "many 100 all seed 1",
    ):  # fmt: skip
        assert name in names
    assert "move orthogonal 16 seed 0" not in names


def test_the_model_never_saw_the_documents() -> None:
    seen, unseen = halves()
    assert not {topic.name for topic in seen} & {topic.name for topic in unseen}
    assert halves() == (seen, unseen)

    class Words:
        def encode(self, text: str) -> list[int]:
            return [len(word) for word in text.split()]

    cut_texts = cut(unseen, Words(), 50)
    assert all(len(ids) == 50 for ids in cut_texts.values())
    assert list(cut(unseen, Words(), 50)) == list(cut_texts)


def test_shape_of_a_selection() -> None:
    shape = Shape(**shape_of(torch.tensor([[1.0, 0.0, 0.0, -1.0], [0.0, 1.0, 0.0, -1.0]])))
    assert shape.on == 0.5
    assert shape.dead == 0.25
    assert shape.negative == 0.25
    assert shape.length == pytest.approx(np.sqrt(2))
    assert shape.apart == pytest.approx(np.sqrt(2))
    assert shape.apart_by_length == pytest.approx(1)


def test_numbers_of_seeds_as_words() -> None:
    assert said(np.array([1.0, 2.0, 3.0])) == "2.00 (1.00 to 3.00)"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epoch": 3}, "did you mean 'epochs'"),
        ({"documents": 2}, "greater than or equal to 3"),
    ],
)
def test_options_of_documents_that_cannot_be(options: dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        DocumentsStudy.preset("quick", **options)


def test_the_paper_preset_of_documents_can_be_made() -> None:
    study = DocumentsStudy.preset("paper")
    assert study.layers == (0, 5, 10, 15)
    assert masked("disjoint") not in study.settings()
    assert masked("disjoint") in DocumentsStudy.preset("quick").settings()
