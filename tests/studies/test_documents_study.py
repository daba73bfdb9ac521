"""The study `documents`, small: every question has its section, a stopped study goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mnemoscope as ms
from mnemoscope.core.bounded import read_sealed
from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import find

transformers = pytest.importorskip("transformers")

from mnemoscope.studies.documents.base import cut, halves  # noqa: E402
from mnemoscope.studies.documents.looks import shape_of  # noqa: E402
from mnemoscope.studies.documents.sentences import every, said  # noqa: E402
from mnemoscope.studies.documents.study import DocumentsStudy  # noqa: E402

SMALL: dict[str, Any] = {"documents": 3, "entries": 8, "epochs": 2, "base_steps": 3, "seeds": 1}
SMALL |= {"segments": 1, "layers": (0, 3), "many": (4,), "many_epochs": 1}
CONTROLS = ("all", "random", "disjoint", "bias")
QUESTIONS = 13


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documents")
    ms.study("documents", out=folder / "study", jobs=1, **SMALL)
    return folder / "study"


def test_every_question_has_its_section(folder: Path) -> None:
    study = find("study", "documents").make(**SMALL)
    result = json.loads((folder / "result.json").read_text())
    sections = study.tell(result, folder)
    assert [section.title.split(" ·")[0] for section in sections] == [
        str(number + 1) for number in range(QUESTIONS)
    ]
    page = (folder / "report.html").read_text()
    assert '"frames": [' in page or '"frames":[' in page
    for control in (*(f"control {name}" for name in CONTROLS), "tanh α=0", "fixed"):
        assert len(result["fits"][control]) == 1
    every_on = result["fits"]["control all"][0]
    assert every_on["right"] == pytest.approx(every_on["wrong"], abs=1e-5)


def test_a_stopped_study_goes_on(folder: Path) -> None:
    before = json.loads((folder / "result.json").read_text())
    (folder / "result.json").unlink()
    lost = next((folder / "fits").glob("tanh*seed-0.json"))
    kept = read_sealed(lost, "")["values"]
    lost.unlink()
    ms.study("documents", out=folder, jobs=1, **SMALL)
    after = json.loads((folder / "result.json").read_text())
    drop = ("seconds", "made")
    for name, fits in before["fits"].items():
        for one, two in zip(fits, after["fits"][name], strict=True):
            assert {k: v for k, v in one.items() if k not in drop} == {
                k: v for k, v in two.items() if k not in drop
            }
    assert read_sealed(lost, "")["values"]["right"] == kept["right"]


def test_the_model_never_saw_the_documents() -> None:
    seen, unseen = halves()
    assert not {topic.name for topic in seen} & {topic.name for topic in unseen}
    assert halves() == (seen, unseen)

    class Words:
        def encode(self, text: str) -> list[int]:
            return [len(word) for word in text.split()]

    pieces = cut(unseen, Words(), 50)
    assert all(len(ids) == 50 for ids in pieces.values())
    assert list(cut(unseen, Words(), 50)) == list(pieces)


def test_shape_of_a_selection() -> None:
    shape = shape_of(torch.tensor([[1.0, 0.0, 0.0, -1.0], [0.0, 1.0, 0.0, -1.0]]))
    assert shape["on"] == 0.5
    assert shape["dead"] == 0.25
    assert shape["negative"] == 0.25
    assert shape["length"] == pytest.approx(np.sqrt(2))
    assert shape["apart"] == pytest.approx(np.sqrt(2))


def test_sentences_are_computed() -> None:
    assert said(np.array([1.0, 2.0, 3.0])) == "2.00 (1.00 to 3.00)"
    assert every(np.array([True, False])) == "in 1 of 2 seeds"
    assert every(np.array([True, True])) == "in all of 2 seeds"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epoch": 3}, "did you mean 'epochs'"),
        ({"documents": 2}, "greater than or equal to 3"),
    ],
)
def test_options_that_cannot_be(options: dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        DocumentsStudy.preset("quick", **options)


def test_the_paper_preset_can_be_made() -> None:
    study = DocumentsStudy.preset("paper")
    assert study.layers == (0, 5, 10, 15)
    assert "control disjoint" not in study.settings()
    assert "control disjoint" in DocumentsStudy.preset("quick").settings()
