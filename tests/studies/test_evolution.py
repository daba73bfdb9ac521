"""The study `evolution`: three objectives, one stack of layers, and orderings that are computed."""

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
from mnemoscope.report.document import Figure, Section, Table
from mnemoscope.studies.evolution.claims import claims
from mnemoscope.studies.evolution.page import page
from mnemoscope.studies.evolution.result import (
    OBJECTIVES,
    ByFrequency,
    Distance,
    EvolutionResult,
    Examined,
    Masked,
    Trained,
)
from mnemoscope.studies.evolution.study import Evolution
from mnemoscope.studies.sentences import verdict
from mnemoscope.studies.study import Diverged

SMALL: dict[str, Any] = {
    "steps": 3,
    "sentences": 1200,
    "layers": 2,
    "width": 8,
    "heads": 2,
    "tested": 100,
    "clusters": 20,
    "samples": 100,
    "seeds": 2,
    "neighbours": 3,
}
FALLING, DIP, FLAT = (3.0, 2.5, 1.0), (3.0, 2.0, 2.8), (3.0, 3.0, 3.0)
Sites = dict[str, tuple[float, ...]]
AS_PUBLISHED: Sites = {"LM": FALLING, "MLM": DIP, "MT": FLAT}


def examined(token: tuple[float, ...], seed: int, masked: bool) -> Examined:
    """What the lenses could have seen in a model of two layers."""
    by_group = ByFrequency(
        ("rank 1–5", "rank 6–9"), {}, ((0.4, 0.3 + seed / 10), (0.4, 0.2)), ((0.1, 0.1),) * 2
    )
    about = {"token": token, "next": (1.0, 1.5, 2.0 + seed), "previous": FLAT}
    null: Sites = {
        "token": (0.1, 0.2, 0.3),
        "next": (0.1,) * 3,
        "previous": (0.1,) * 3,
    }
    shares: Sites = dict.fromkeys(("token", "position", "left", "right"), (1.0, 0.5, 0.25))
    return Examined(
        sites=("embeddings", "layer.0.out", "layer.1.out"),
        tokens=800,
        entropy={"token": 3.5, "next": 3.4, "previous": 3.3},
        information=about,
        null=null,
        adjusted=null,
        inertia=FLAT,
        clustering_spread={"token": 0.05 + seed / 100, "next": 0.9, "previous": 0.9},
        change=(0.3, 0.1),
        change_by_group=by_group,
        influence=by_group,
        neighbours=shares,
        neighbours_null=dict.fromkeys(shares, 0.125),
        ceiling=0.875,
        seconds=2.0 + seed,
        valid_loss=1.0 + seed,
        masked=Masked((0.0, 0.5, 1.0), (0.1,) * 3, 3.0) if masked else None,
    )


def made(token: Sites = AS_PUBLISHED) -> EvolutionResult:
    """Two seeds each; runs of one objective are 0.1 apart, of MT and LM 0.6, of others 0.4."""
    trials = tuple(
        Trained(o, seed, f"{o.lower()}-seed{seed}", examined(token[o], seed, o != "MT"))
        for o in OBJECTIVES
        for seed in range(2)
    )
    distances = []
    for number, left in enumerate(trials):
        for right in trials[number + 1 :]:
            pair = {left.objective, right.objective}
            top = 0.1 if len(pair) == 1 else 0.6 if pair == {"MT", "LM"} else 0.4
            distances.append(Distance(left.run, right.run, (0.0, 0.05, top), (0.9, 0.9, 0.9)))
    counts = {"MT": 300, "LM": 200, "MLM": 200}
    return EvolutionResult(None, 2, 8, 20, 100, 3, counts, trials, tuple(distances))


def part(sections: list[Section], name: str) -> Figure | Table:
    found = [one for section in sections for one in section.parts if not isinstance(one, str)]
    return next(one for one in found if one.name == name)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> ms.Published:
    out = tmp_path_factory.mktemp("studies") / "evolution"
    return ms.study("evolution", out=out, jobs=1, **SMALL)


def test_the_study_runs_and_says_which_orderings_it_saw(published):
    result = published.result
    assert [one.run for one in result.trials] == [
        f"{objective}-seed{seed}" for objective in ("mt", "lm", "mlm") for seed in range(2)
    ]
    text = published.page.read_text()
    assert "MT and MLM are closer than MT and LM" in text
    assert (published.page.parent / "figures" / "distance-between-objectives.csv").is_file()
    for objective in OBJECTIVES:
        known = result.curves(objective, lambda one: one.information["token"])
        assert known.shape == (2, 3)
        assert (known <= result.examined()[0].entropy["token"] + 1e-9).all()
        assert result.between(objective, objective).shape == (1, 3)
    assert result.between("MT", "LM").shape == (4, 3)
    for one in result.trials:
        assert len(one.outcome.influence.distance) == len(one.outcome.influence.groups)
        assert (one.outcome.masked is not None) == (one.objective != "MT")


def test_all_three_read_the_same_tokens_with_layers_of_the_same_shape(published):
    runs = [published.page.parent / "runs" / f"{o.lower()}-seed0" for o in OBJECTIVES]
    shapes = []
    for folder in runs:
        model = ms.load(folder)
        stack = model.encoder if hasattr(model, "encoder") else model.layers
        shapes.append([tuple(weight.shape) for weight in stack.parameters()])
    assert shapes[0] == shapes[1] == shapes[2]
    words = [
        (Path(folder) / name).read_text()
        for folder, name in zip(
            runs, ("source-vocabulary.json", "vocabulary.json", "vocabulary.json"), strict=True
        )
    ]
    assert words[0] == words[1] == words[2]


def test_a_result_of_evolution_goes_to_json_and_back(published):
    diverged = replace(made().trials[0], outcome=Diverged("the loss is nan"))
    for result in (published.result, replace(made(), trials=(diverged, *made().trials[1:]))):
        plain = json.loads(json.dumps(to_plain(result)))
        again = from_plain(EvolutionResult, plain)
        assert again == result
        for one, two in zip(page(result), page(again), strict=True):
            assert one.title == two.title
            for left, right in zip(one.parts, two.parts, strict=True):
                if isinstance(left, Figure):
                    assert left.figure.to_json() == right.figure.to_json()
                    assert (left.caption, left.data) == (right.caption, right.data)
                else:
                    assert left == right


def test_orderings_are_computed_from_the_numbers():
    as_published = {row[0]: row[1:] for row in claims(made())}
    assert as_published["LM loses the input with depth"] == [
        "seen, 2 of 2",
        "nats about the token fall from 3.00 to 1.00",
    ]
    assert as_published["LM loses more of it than MT and MLM"][0] == "seen, 2 of 2"
    assert as_published["LM builds the output: nats about the next token rise"] == [
        "seen, 2 of 2",
        "1.00 at the embeddings, 2.50 on top",
    ]
    assert as_published["MLM loses the input, then rebuilds it"][0] == "seen, 2 of 2"
    assert as_published["MT and MLM are closer than MT and LM"] == [
        "seen, 4 of 4",
        "top layer: 0.400 against 0.600",
    ]
    assert as_published["Seeds are closer than objectives"][0] == "seen, 3 of 3"
    assert as_published["MT changes tokens less and less"][1] == "0.300, 0.100"
    assert as_published["Frequent tokens change more"] == [
        "seen, 6 of 6",
        "0.3500 for the most frequent, 0.2000 for the rarest",
    ]
    assert as_published["Rare tokens influence more"] == [
        "not seen, 0 of 6",
        "0.4000 for the most frequent, 0.4000 for the rarest",
    ]
    otherwise = {row[0]: row[1] for row in claims(made({"LM": FLAT, "MLM": FALLING, "MT": FLAT}))}
    assert otherwise["LM loses the input with depth"] == "not seen, 0 of 2"
    assert otherwise["MLM loses the input, then rebuilds it"] == "not seen, 0 of 2"
    assert verdict(np.array([True, False])) == "unclear, 1 of 2"
    assert verdict([]) == "unclear, 0 of 0"


def test_numbers_on_the_page_of_evolution_are_those_of_its_result():
    sections = page(made())
    opening = sections[0].parts[0]
    assert "8 were seen here, 0 in some trainings only, 1 in none" in opening
    assert "8 wide, 2 layers deep and read sentences from a made-up grammar" in opening
    known = part(sections, "What layers know of the token read")
    assert known.data[0] == {"objective": "MT", "training": 0, "layer": 0, "value": 3.0}
    assert [row["value"] for row in known.data if row["objective"] == "LM"] == [*FALLING, *FALLING]
    assert (
        "800 tokens). Clustering with another seed moves a value by at most 0.06 nats"
        in (sections[1].parts[0])
    )
    coming = part(sections, "What layers know of the token to come")
    curve = next(one for one in coming.figure.data if one.name == "LM" and one.mode)
    assert list(curve.y) == [1.0, 1.5, 2.5]
    hidden = part(sections, "What layers know of a hidden token")
    assert {row["objective"] for row in hidden.data} == {"LM", "MLM"}
    apart = part(sections, "Distance between objectives")
    assert "800 tokens, 100 for each dimension; tokens paired at random would be at 0.90" in (
        apart.caption
    )
    tops = {(row["pair"], row["pwcca"]) for row in apart.data if row["layer"] == 2}
    assert tops == {
        *((f"{o}, seeds only", 0.1) for o in OBJECTIVES),
        *(("MT – MLM", 0.4), ("MT – LM", 0.6), ("LM – MLM", 0.4)),
    }
    changed = part(sections, "Change by frequency in LM")
    assert changed.data[1] == {"group": "rank 1–5", "training": 0, "layer": 2, "change": 0.3}
    assert part(sections, "Change from layer to layer").data[0]["layer"] == 1
    assert "The 3 nearest neighbours" in sections[5].parts[0]
    assert part(sections, "What was trained").rows[0] == ["MT", 300, 1.5, 2.5, 0]


def test_a_training_of_evolution_that_diverged_is_left_out():
    whole = made()
    first = replace(whole.trials[0], outcome=Diverged("the loss is nan"))
    distances = tuple(one for one in whole.distances if first.run not in (one.left, one.right))
    result = replace(whole, trials=(first, *whole.trials[1:]), distances=distances)
    assert dict(row[:2] for row in claims(result))["Seeds are closer than objectives"] == (
        "seen, 2 of 2"
    )
    sections = page(result)
    assert part(sections, "What was trained").rows[0] == ["MT", 300, 2.0, 3.0, 1]
    pairs = {row["pair"] for row in part(sections, "Distance between objectives").data}
    assert "MT, seeds only" not in pairs
    assert "LM, seeds only" in pairs


def test_wrong_options_of_evolution_are_explained():
    with pytest.raises(UserError, match="increasing ranks"):
        Evolution.preset("quick", edges="5,2")
    with pytest.raises(UserError, match="did you mean 'layers'"):
        Evolution.preset("quick", layer=2)
