"""The lens `evolution`: models alone, and against those that read the same tokens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plain_text import write_lines

import mnemoscope as ms
from mnemoscope.core.errors import UserError
from mnemoscope.lenses.evolution.lens import same_depth
from mnemoscope.lenses.evolution.result import Looked
from mnemoscope.models.model import SequenceModel
from mnemoscope.report.document import Figure

OPTIONS: dict[str, Any] = {"tokens": 1500, "length": 32, "clusters": 8, "seeds": 2}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text, and runs of one step on its characters and on its bytes."""
    home = tmp_path_factory.mktemp("evolution")
    write_lines(home / "text.txt")
    shape: dict[str, Any] = {"width": 8, "steps": 1, "heads": 2, "segment": 32}
    text = {**shape, "source": str(home / "text.txt")}
    for name, unit, layers in (("a", "characters", 2), ("b", "characters", 3), ("c", "bytes", 2)):
        ms.train("text", "transformer", home / name, **text, unit=unit, layers=layers)
    return home


def test_models_with_the_same_tokens_are_compared_and_others_told_apart(home: Path) -> None:
    found: Any = ms.lens("evolution", [home / "a", home / "b", home / "c"], home / "text.txt",
                         **OPTIONS)  # fmt: skip
    assert list(found.looked) == ["a", "b", "c"]
    (pair,) = found.pairs
    assert (pair.left, pair.right) == ("a", "b")
    assert pair.similarity.pairs[0] == ("A/embeddings", "B/embeddings")
    assert pair.similarity.pairs[-1] == ("A/layer.1.out", "B/layer.2.out")
    assert len(found.apart) == 2
    assert all("cut text into different tokens" in why for why in found.apart)
    names = [part.name for part in found.parts() if isinstance(part, Figure)]
    assert "Distance of pair 1: a and b" in names
    assert len(names) == 1 + 3 * 3 + 1
    assert {row["model"] for row in found.table()} == {"a", "b", "c"}
    assert [curve.name for curve in found.figure("next").data if curve.name] == ["a", "b", "c"]


def test_one_model_is_what_information_and_change_say_of_it(home: Path) -> None:
    text = home / "text.txt"
    found: Any = ms.lens("evolution", home / "a", text, **OPTIONS)
    known: Any = ms.lens("information", home / "a", text, **OPTIONS, targets=("token", "next"))
    changed: Any = ms.lens("change", home / "a", text, tokens=1500, length=32)
    (one,) = found.looked.values()
    for target in ("token", "next"):
        assert np.array_equal(one.information.value[target], known.value[target])
    assert np.array_equal(one.change.distance, changed.distance)
    with pytest.raises(UserError, match="did you mean 'next'"):
        found.figure("nxt")


def test_a_site_that_one_model_lacks_shows_before_any_model_reads(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SequenceModel, "__call__", None)  # to read would be a TypeError
    with pytest.raises(UserError, match=r"^a: no module matches 'layer\.2\.out'; did you mean"):
        ms.lens("evolution", [home / "b", home / "a"], home / "text.txt", sites="layer.2.out",
                **OPTIONS)  # fmt: skip


def test_a_model_and_itself_have_no_distance(home: Path) -> None:
    found: Any = ms.lens("evolution", [home / "a", home / "a"], home / "text.txt", **OPTIONS)
    assert list(found.looked) == ["a (1)", "a (2)"]
    assert found.pairs[0].similarity.distance["pwcca"] == pytest.approx(0, abs=1e-6)
    assert "PWCCA distance is 0.00" in found.finding().parts[2]


def test_what_chance_adds_with_depth_is_no_rise(home: Path) -> None:
    found: Any = ms.lens("evolution", home / "a", home / "text.txt", **OPTIONS)
    (one,) = found.looked.values()
    known, shape = one.information, one.information.value["next"].shape
    steps = np.linspace(0, 0.6, shape[0])[:, None] * np.ones(shape)
    probe, error = np.linspace(0, 0.3, shape[0]), np.full(shape[0], 0.01)

    def seen(null: Any) -> Looked:
        told: dict[str, Any] = {
            "value": {**known.value, "next": 1 + steps},
            "null": {**known.null, "next": null},
            "probe": {**known.probe, "next": probe},
            "probe_error": {**known.probe_error, "next": error},
        }
        return replace(one, information=replace(known, **told))

    # As much of it as the null rises by is taken off; what the null falls by is not added.
    assert seen(np.full(shape, 0.5)).rises("a").verdict == "seen"
    assert seen(0.5 - steps).rises("a").effects == pytest.approx(steps[-1])
    level = seen(0.5 + steps)
    assert level.rises("a").verdict == "not seen"
    claim = level.reads("a")
    assert claim.verdict == "seen"
    around = 2 * np.hypot(0.01, 0.01)
    assert claim.effects == pytest.approx([0.3 - around, 0.3 + around])
    said = " ".join(replace(found, looked={"a": level}).finding().parts[:-1])
    assert "does not rise beyond chance" in said
    assert f"0.30 at {known.sites[-1]}" in said


def test_sites_at_the_same_depth_are_compared() -> None:
    few = ["A/embeddings", "A/layer.0.out"]
    many = ["B/embeddings", *(f"B/layer.{n}.out" for n in range(4))]
    assert same_depth([*few, *many]) == [(few[0], many[0]), (few[1], many[-1])]
    assert same_depth(["A/x", "A/y", "A/z", "B/x", "B/z"]) == [("A/x", "B/x"), ("A/z", "B/z")]
