"""The study `evolution`: three objectives, one stack of layers, and orderings that are computed."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from evolution_results import (
    DIP,
    FALLING,
    FLAT,
    changed,
    judged,
    made,
    part,
    verdicts,
    with_film,
)

import mnemoscope as ms
from mnemoscope.core.data import from_plain, to_plain
from mnemoscope.core.errors import UserError
from mnemoscope.report.document import Figure
from mnemoscope.studies.evolution.claims import gates
from mnemoscope.studies.evolution.page import page
from mnemoscope.studies.evolution.result import (
    FATES,
    OBJECTIVES,
    ByFrequency,
    EvolutionResult,
)
from mnemoscope.studies.evolution.study import Evolution
from mnemoscope.studies.evolution.trivial import trivial_losses
from mnemoscope.studies.study import Diverged
from mnemoscope.training.run import Run

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
    "same_start": True,
    "moments": 2,
    "translated": 4,
    "learning_rates": (1e-3, 2e-3),
    "sweep_steps": 1,
    "parts_of_speech": True,
}
STUDY = "evolution"


def test_the_study_runs_and_says_which_orderings_it_saw(published):
    result = published.result
    assert [one.run for one in result.trials] == [
        f"{objective}-{which}"
        for objective in ("mt", "lm", "mlm")
        for which in ("seed0", "seed1", "same")
    ]
    text = published.page.read_text()
    assert "MT and MLM are closer than MT and LM" in text
    assert (published.page.parent / "figures" / "distance-between-objectives.csv").is_file()
    for objective in OBJECTIVES:
        known = result.curves(objective, lambda one: one.information["token"])
        assert known.shape == (3, 3)
        assert (known <= result.examined()[0].entropy["token"] + 1e-9).all()
        assert result.between(objective, objective).shape == (3, 3)
    assert result.between("MT", "LM").shape == (8, 3)
    assert result.between("MT", "LM", same_start=True).shape == (1, 3)
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
    broken = replace(made(), trials=(diverged, *made().trials[1:]))
    for result in (published.result, broken, with_film(made())):
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
    found = judged(made())
    loses, numbers = found["LM loses the input with depth"]
    assert (loses.verdict, loses.why) == ("seen", "2 (2 to 2) nats against 0.05; 2 of 2")
    assert numbers == "3.00 at the embeddings, 1.00 on top"
    assert verdicts(made()) == {
        **dict.fromkeys(found, "seen"),
        "MT changes tokens less and less": "not judged",  # of two layers, one has a layer below
        "Rare tokens influence more": "opposite",
    }
    assert found["MLM builds words that are hidden from it"][0].effects == pytest.approx([1, 1])
    assert found["MLM loses words that stand where others were"][0].effects == pytest.approx([1, 1])
    otherwise = verdicts(made({"LM": FLAT, "MLM": FALLING, "MT": FLAT}))
    assert otherwise["LM loses the input with depth"] == "not seen"
    assert otherwise["MLM loses the input, then rebuilds it"] == "not seen"
    barely = verdicts(made({"LM": (3.0, 3.0, 2.97), "MLM": DIP, "MT": FLAT}))
    assert barely["LM loses the input with depth"] == "not seen"


def test_what_chance_adds_at_one_end_alone_is_taken_off():
    nulls = made().trials[0].outcome.null
    rises = "LM builds the output: nats about the next token rise"
    noisy = changed(made(), "LM", null={**nulls, "next": (0.1, 0.6, 1.1)})  # as much as nats rise
    assert judged(noisy)[rises][0].effects == pytest.approx([0, 1])
    assert verdicts(noisy)[rises] == "unclear"
    assert judged(noisy)[rises][1].endswith("; a linear probe finds 1.00, then 2.50")
    # Where chance adds less to what is larger, nothing is taken off, nor added.
    noisy = changed(made(), "LM", null={**nulls, "next": (1.1, 0.6, 0.1)})
    assert judged(noisy)[rises][0].effects == pytest.approx([1, 2])
    noisy = changed(made(), "MLM", null={**nulls, "token": (0.9, 0.1, 0.1)})
    dip = judged(noisy)["MLM loses the input, then rebuilds it"][0]
    assert dip.effects == pytest.approx([0.2, 0.2])  # 3.0 − 2.0 − 0.8 before the 0.8 after
    noisy = changed(made(), "MT", null={**nulls, "token": (0.1, 0.2, 2.2)})
    more = judged(noisy)["LM loses more of it than MT and MLM"][0]
    assert more.effects == pytest.approx([0.1, 0.1])  # 3.0 − 1.0 − (2.2 − 0.3)


def test_every_pair_of_trainings_is_compared_with_every_other():
    """The mean of MT – MLM is below every pair of MT – LM here, but one pair is not."""
    whole = made()
    far = next(one for one in whole.distances if (one.left, one.right) == ("mt-seed0", "mlm-seed0"))
    others = tuple(one for one in whole.distances if one is not far)
    result = replace(whole, distances=(*others, replace(far, pwcca=(0.0, 0.05, 0.62))))
    assert np.mean(result.between("MT", "MLM")[:, -1]) < result.between("MT", "LM")[:, -1].min()
    claim, _ = judged(result)["MT and MLM are closer than MT and LM"]
    assert len(claim.effects) == 16
    assert claim.verdict == "unclear"


def test_change_by_frequency_counts_every_transition():
    """In the second layer frequent tokens change more, in the others less."""
    groups = ByFrequency(
        ("rank 1–5", "rank 6–9"), {}, ((0.1, 0.3, 0.1), (0.4, 0.2, 0.4)), ((0.1,) * 3,) * 2
    )
    claim, numbers = judged(changed(made(), *OBJECTIVES, change_by_group=groups))[
        "Frequent tokens change more"
    ]
    assert claim.effects == pytest.approx([-0.5] * 6)
    assert claim.verdict == "opposite"
    assert numbers.startswith("by layer 0.1000, 0.3000, 0.1000 for the most frequent")


def test_models_that_count_words_no_better_are_not_judged():
    lazy = changed(made(), "LM", valid_loss=3.5)
    assert verdicts(lazy)["LM loses the input with depth"] == "not judged"
    assert verdicts(lazy)["MT and MLM are closer than MT and LM"] == "not judged"
    assert verdicts(lazy)["MLM loses the input, then rebuilds it"] == "seen"
    assert [gate.passed for gate in gates(lazy)] == [True, False, True]
    older = changed(made(), *OBJECTIVES, trivial={}, probe={}, cluster_entropy=())
    assert set(verdicts(older).values()) == {"not judged"}
    assert page(older)


def test_clusters_at_their_ceiling_are_not_judged():
    few = changed(made(), "LM", cluster_entropy=(3.2, 4.0, 4.0))
    assert verdicts(few)["LM loses the input with depth"] == "not judged"
    assert verdicts(few)["LM builds the output: nats about the next token rise"] == "seen"


def test_counted_words_are_counted_as_a_plain_loop_would(published):
    run = Run.open(published.page.parent / "runs" / "lm-seed0")
    task, settings = run.config.task, run.config.training
    pairs: Counter[tuple[int, int]] = Counter()
    for step in range(settings.steps):
        batch = task.batch(step, settings.batch, seed=settings.seed)
        for tokens, targets in zip(batch.tokens, batch.targets, strict=True):
            pairs.update((int(a), int(b)) for a, b in zip(tokens, targets, strict=True) if b >= 0)
    single: Counter[int] = Counter()
    for (_, after), times in pairs.items():
        single[after] += times
    total = sum(single.values()) + task.vocab
    losses = []
    for step in range(settings.evaluate_batches):
        batch = task.batch(step, run.config.held_out_rows, seed=settings.seed, split="valid")
        losses += [np.log(total / (single[int(b)] + 1)) for b in batch.targets.ravel() if b >= 0]
    found = trivial_losses(run.config)
    assert found["unigram"] == pytest.approx(np.mean(losses))
    assert found["bigram"] < found["unigram"]
    assert published.result.examined("LM")[0].trivial == pytest.approx(found)


def test_words_hidden_replaced_kept_and_untouched_are_taken_apart(published):
    for one in published.result.examined("LM", "MLM"):
        apart = one.masked.apart
        assert set(apart) == set(FATES)
        # All hidden words are read as the same token, and kept ones as what they are.
        assert apart["hidden"].read == pytest.approx((0.0,) * 3, abs=1e-9)
        assert apart["kept"].read == pytest.approx(apart["kept"].word)
        assert apart["untouched"].read == pytest.approx(apart["untouched"].word)
        assert apart["replaced"].read[0] > apart["replaced"].word[0]
        assert one.masked.label == apart["hidden"].word
        assert all(len(fate.change) == 2 for fate in apart.values())


def test_numbers_on_the_page_of_evolution_are_those_of_its_result():
    sections = page(made())
    opening = sections[1].parts[0]
    assert "9 are seen, 1 not judged and 1 opposite here" in sections[0].parts[2]
    assert "LM's loss below that of bigrams: passed, by 1.5 (1 to 2)" in sections[1].parts[1]
    assert "8 wide, 2 layers deep and read sentences from a made-up grammar" in opening
    known = part(sections, "What layers know of the token read")
    assert known.data[0] == {"objective": "MT", "training": 0, "layer": 0, "value": 3.0}
    assert [row["value"] for row in known.data if row["objective"] == "LM"] == [*FALLING, *FALLING]
    assert (
        "800 tokens). Clustering with another seed moves a value by at most 0.06 nats"
        in (sections[2].parts[0])
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
    assert "The 3 nearest neighbours" in sections[6].parts[0]
    assert part(sections, "What was trained").rows[0] == ["MT", 300, 1.5, 2.5, 0]


def test_a_training_of_evolution_that_diverged_is_left_out():
    whole = made()
    first = replace(whole.trials[0], outcome=Diverged("the loss is nan"))
    distances = tuple(one for one in whole.distances if first.run not in (one.left, one.right))
    result = replace(whole, trials=(first, *whole.trials[1:]), distances=distances)
    seeds, _ = judged(result)["Seeds are closer than objectives"]
    assert (seeds.verdict, len(seeds.effects)) == ("seen", 2)
    sections = page(result)
    assert part(sections, "What was trained").rows[0] == ["MT", 300, 2.0, 3.0, 1]
    pairs = {row["pair"] for row in part(sections, "Distance between objectives").data}
    assert "MT, seeds only" not in pairs
    assert "LM, seeds only" in pairs


def test_the_preset_tatoeba_asks_for_its_corpus():
    with pytest.raises(UserError, match="--corpus eng-deu"):
        Evolution.preset("tatoeba")


def test_trainings_from_one_start_have_the_same_encoder_and_the_others_do_not(published):
    runs = published.page.parent / "runs"

    def begun(name: str) -> list[Any]:
        model = Run.open(runs / name).moment(0)
        layers = model.encoder if hasattr(model, "encoder") else model.layers
        return [*layers.parameters(), model.embedding.weight[:100]]

    def alike(one: str, other: str) -> bool:
        return all(map(torch.equal, begun(one), begun(other)))

    assert alike("mt-same", "lm-same")
    assert alike("mt-same", "mlm-same")
    assert not alike("lm-seed0", "mlm-seed0")
    assert not any((runs / name / "moments").exists() for name in ("mt-same", "lm-seed0"))
    assert [one.step for one in published.result.moments] == [0, 1, 3]
    for one in published.result.examined("LM", "MLM"):
        assert [moment.step for moment in one.moments] == [0, 1, 3]
        assert one.moments[-1].valid_loss == pytest.approx(one.valid_loss, rel=1e-4)
        assert all(moment.hidden is not None for moment in one.moments)
    assert all(one.bleu is not None for one in published.result.examined("MT"))


def test_wrong_options_of_evolution_are_explained():
    with pytest.raises(UserError, match=r"edges: .*increasing numbers"):
        Evolution.preset("quick", edges="5,2")
    with pytest.raises(UserError, match="did you mean 'layers'"):
        Evolution.preset("quick", layer=2)
