"""The film of the study `evolution`: moments of training, and the gates of a longer one."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from evolution_results import (
    changed,
    made,
    part,
    verdicts,
    with_film,
)

from mnemoscope.core.data import to_plain
from mnemoscope.core.errors import UserError
from mnemoscope.studies.evolution.claims import gates
from mnemoscope.studies.evolution.page import page
from mnemoscope.studies.evolution.study import Evolution


def test_a_film_has_a_slider_on_the_screen_and_stands_side_by_side_on_paper():
    sections = page(with_film(made()))
    name = "Nats about the token read while training"
    moving, sheet = part(sections, name), part(sections, f"{name}, side by side")
    assert [one.label for one in moving.figure.layout.sliders[0].steps] == [
        "step 0",
        "step 2",
        "step 5",
    ]
    assert not sheet.figure.layout.sliders
    titles = [sheet.figure.layout[f"legend{n}"].title.text for n in ("", "2", "3")]
    assert titles == ["<b>step 0</b>", "<b>step 2</b>", "<b>step 5</b>"]
    assert moving.data[0] == {
        "step": 0, "objective": "MT", "training": 0, "layer": 0, "value": 3.0
    }  # fmt: skip
    rows = part(sections, "Orderings while training").rows
    assert [row[0] for row in rows] == [0, 2, 5]
    assert [row[1] for row in rows] == pytest.approx([0.0, 0.4, 1.0])
    losses = {(row["step"], row["validation loss"])
              for row in part(sections, "Loss at the moments of training").data}  # fmt: skip
    assert losses == {(0, 4.0), (2, 3.8), (5, 3.5)}
    apart = part(sections, "Distance between objectives from one initialisation")
    assert {row["pair"] for row in apart.data} == {"MT – MLM", "MT – LM", "LM – MLM"}
    untrained = part(sections, "Distance from untrained models")
    assert {row["pwcca"] for row in untrained.data} == {0.1, 0.2, 0.3}
    assert part(sections, "Occurrences in MLM").figure.layout.sliders
    assert part(sections, "Change by part of speech in MT").data
    assert not any(section.title == "How it came about" for section in page(made()))


def test_gates_of_a_longer_training_are_trigrams_neighbours_and_bleu():
    found = {gate.name: gate.passed for gate in gates(with_film(made()))}
    assert found == {
        "MT's loss below that of bigrams of its target": True,
        "MT's BLEU above 25": True,
        "LM's loss below that of bigrams": True,
        "LM's loss below that of trigrams": True,
        "MLM's loss below that of unigrams": True,
        "MLM's loss below that of bigrams with both neighbours": True,
    }
    poor = changed(with_film(made()), "MT", bleu=24.0)
    assert verdicts(poor)["Seeds are closer than objectives"] == "not judged"
    table = part(page(with_film(made())), "Orderings of the paper")
    assert table.columns[-1] == "paper"
    assert all(row[-1] for row in table.rows)


def test_a_film_is_drawn_where_torch_cannot_be_imported(tmp_path):
    (tmp_path / "result.json").write_text(json.dumps(to_plain(with_film(made()))))
    code = (
        "import json, sys\n"
        "sys.modules['torch'] = None\n"
        "from mnemoscope.core.data import from_plain\n"
        "from mnemoscope.studies.evolution.page import page\n"
        "from mnemoscope.studies.evolution.result import EvolutionResult\n"
        "print(len(page(from_plain(EvolutionResult, json.load(open(sys.argv[1]))))))\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "result.json")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(page(with_film(made())))


def test_moments_are_more_at_first_and_end_with_training():
    study = Evolution.preset("tatoeba", corpus="pairs.tsv")
    steps = study.film()
    assert (steps[0], steps[-1], len(steps)) == (0, 8000, 6)
    ratios = np.array(steps[2:]) / np.array(steps[1:-1])
    assert ratios == pytest.approx(np.full(4, ratios[0]), rel=0.02)
    assert Evolution.preset("quick").film() == ()
    with pytest.raises(UserError, match="moments=9 are more than steps=3"):
        Evolution.preset("quick", steps=3, moments=9)
