from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mnemoscope as ms
from mnemoscope.core.errors import UserError
from mnemoscope.studies.evolution.claims import between, claims, curves, verdict
from mnemoscope.studies.evolution.study import OBJECTIVES, Evolution

SMALL = {
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


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> ms.Published:
    out = tmp_path_factory.mktemp("studies") / "evolution"
    return ms.study("evolution", out=out, jobs=1, **SMALL)


def test_the_study_runs_and_says_which_orderings_it_saw(published):
    result = published.result
    assert [row["run"] for row in result["trials"]] == [
        f"{objective}-seed{seed}" for objective in ("mt", "lm", "mlm") for seed in range(2)
    ]
    page = published.page.read_text()
    assert "MT and MLM are closer than MT and LM" in page
    assert (published.page.parent / "figures" / "distance-between-objectives.csv").is_file()
    for objective in OBJECTIVES:
        told = curves(result, objective, "information", "token")
        assert told.shape == (2, 3)
        assert (told <= result["trials"][0]["entropy"]["token"] + 1e-9).all()
        assert between(result, objective, objective).shape == (1, 3)
    assert between(result, "MT", "LM").shape == (4, 3)
    for row in result["trials"]:
        assert len(row["influence"]["distance"]) == len(row["influence"]["groups"])
        assert ("masked" in row) == (row["objective"] != "MT")


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


def test_claims_are_computed_from_the_numbers(published):
    result = published.result

    def changed(values: dict[str, list[float]]) -> dict[str, str]:
        trials = [
            {**row, "information": {**row["information"], "token": values[row["objective"]]}}
            for row in result["trials"]
        ]
        return {row[0]: row[1] for row in claims({**result, "trials": trials})}

    falling, dip, flat = [3.0, 2.5, 1.0], [3.0, 2.0, 2.8], [3.0, 3.0, 3.0]
    as_published = changed({"LM": falling, "MLM": dip, "MT": flat})
    assert as_published["LM loses the input with depth"] == "seen, 2 of 2"
    assert as_published["LM loses more of it than MT and MLM"] == "seen, 2 of 2"
    assert as_published["MLM loses the input, then rebuilds it"] == "seen, 2 of 2"
    otherwise = changed({"LM": flat, "MLM": falling, "MT": flat})
    assert otherwise["LM loses the input with depth"] == "not seen, 0 of 2"
    assert otherwise["MLM loses the input, then rebuilds it"] == "not seen, 0 of 2"
    assert verdict(np.array([True, False])) == "unclear, 1 of 2"


def test_mistakes_are_explained():
    with pytest.raises(UserError, match="increasing ranks"):
        Evolution.preset("quick", edges="5,2")
    with pytest.raises(UserError, match="did you mean 'layers'"):
        Evolution.preset("quick", layer=2)
