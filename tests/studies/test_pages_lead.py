"""Pages lead with what was found: plain sentences, computed from the result, and one figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mnemoscope.core.registry import find
from mnemoscope.report.document import MOST_SENTENCES, Figure, Finding, Section
from mnemoscope.shipped import load, shipped
from mnemoscope.studies.contest.claims import findings as contest_found
from mnemoscope.studies.contest.result import Contestant, ContestResult, Curve, Training
from mnemoscope.studies.lag.finding import findings as lag_found
from mnemoscope.studies.sentences import best_rates, leaders, leading, listed, not_compared
from mnemoscope.studies.sorting.claims import findings as sorting_found
from mnemoscope.studies.study import Diverged, label
from mnemoscope.studies.translation.sentences import findings as translation_found

OF_STUDIES = [name for name in shipped() if load(name).kind == "study"]
LONGEST = 260


def result_of(name: str) -> Any:
    return load(name).result


def page_of(name: str, result: Any) -> Sequence[Section]:
    sections: Sequence[Section] = find("study", name).page(result)
    return sections


def check(sections: Sequence[Section]) -> list[str]:
    """The sentences of a page's finding, checked for form."""
    lead = sections[0]
    assert isinstance(lead, Finding)
    *sentences, figure = lead.parts
    assert isinstance(figure, Figure)
    assert 1 <= len(sentences) <= MOST_SENTENCES
    for sentence in sentences:
        assert isinstance(sentence, str)
        assert len(sentence) < LONGEST
        assert sentence.endswith(".")
        assert " ≈ " not in sentence
        assert " nan" not in sentence
    return [str(one) for one in sentences]


@pytest.mark.parametrize("name", OF_STUDIES)
def test_a_shipped_page_leads_with_its_finding_and_draws_no_figure_twice(name: str) -> None:
    finished = load(name)
    sections = page_of(finished.name, finished.result)
    check(sections)
    assert not any(isinstance(one, Finding) for one in sections[1:])
    drawn = [part.name for one in sections for part in one.parts if isinstance(part, Figure)]
    assert len(drawn) == len(set(drawn))


def test_who_leads_is_said_as_far_as_seeds_tell_it() -> None:
    values = {"a": np.array([3.0, 2.8]), "b": np.array([2.9, 2.7]), "c": np.array([1.0, 1.2])}
    verbs = "has most", "have most"
    assert leading(values, 0.1) == ["a", "b"]
    told = leaders(values, 0.1, verbs, ".1f", " bits")
    assert told == "a and b have most, 2.8 to 2.9 bits, and cannot be told apart"
    assert leading(values, 0.1, lowest_first=True) == ["c"]
    told = leaders(values, 0.1, ("has least", "have least"), ".1f", "", lowest_first=True)
    assert told == "c has least, 1.1"
    # One seed of d reaches the best, though its mean is below that of c.
    wide = {"a": values["a"], "c": np.array([2.0, 2.0]), "d": np.array([0.0, 2.9])}
    told = leaders(wide, 0.1, verbs, ".1f", "")
    assert told == "a has most, 2.9, though not ahead of d in every seed"
    told = leaders(wide, 0.1, verbs, ".1f", "", among="draw")
    assert told == "a has most, 2.9, though not ahead of d in every draw"
    both = {"a": values["a"], "b": values["b"]}
    assert leaders(both, 0.1, verbs, ".1f", "") == "a and b cannot be told apart, 2.8 to 2.9"
    many = {f"a memory with a long name {n}": np.array([1.0, 1.2]) for n in range(5)}
    assert not_compared(list(many), "why") == ["5 models are not compared: why."]
    assert not_compared([], "why") == []
    assert leaders(many, 0.1, verbs, ".1f", "") == "5 of 5 cannot be told apart, 1.1"
    assert [listed(["a"]), listed(["a", "b", "c"])] == ["a", "a, b and c"]


def test_a_best_rate_at_an_end_of_the_sweep_is_said() -> None:
    assert (
        best_rates({"A": 0.1}, [0.1, 0.1]) == "A 0.1. There was one rate only: nothing was swept."
    )
    rates = [0.01, 0.1, 1.0]
    assert best_rates({"A": 0.1}, rates).endswith("No best rate lies at an end of the sweep.")
    assert "that of B is the highest tried" in best_rates({"A": 0.1, "B": 1.0}, rates)


def test_lag_says_who_still_repeats_after_the_longest_wait() -> None:
    result = result_of("lag")
    last = {label(name): result.accuracy(name)[:, -1].mean() for name in result.models}
    first = check(page_of("lag", result))[0]
    assert f"After a wait of {result.waits[-1]} tokens, 16 times the longest in training" in first
    best = max(last, key=lambda name: last[name])
    assert best in first
    assert f"{last[best]:.0%} of the symbols" in first
    assert "Transformer" not in first
    assert first.endswith(f"guessing gives {1 / result.symbols:.0%}.")


def test_lag_of_memories_that_forgot_or_learnt_nothing() -> None:
    result = result_of("lag")
    lost = tuple(replace(one, asked=None, diverged="nan") for one in result.trainings)
    nothing = replace(result, trainings=lost, gates={})
    said = check(page_of("lag", nothing))
    assert "no memory repeats the symbols: at most 12% are right; guessing gives 12%." in said[0]
    assert said[1] == (
        "More than half-way from guessing to all right: RNN, LSTM, GRU and Transformer at no wait."
    )
    assert said[2] == (
        "RNN, LSTM, GRU and Transformer are not compared: not every training repeats symbols even "
        "after a wait of 1."
    )
    short = replace(result, trained=result.waits[-1])
    assert "times the longest" not in lag_found(short)[0]


def contest_of(bits: dict[str, list[float]]) -> ContestResult:
    trainings = tuple(
        Training(name, 0.01, seed, Curve((3, 6), (9.0, value), 2.0, value))
        for name, values in bits.items()
        for seed, value in enumerate(values)
    )
    models = {name: Contestant(5.0, 6, 7.5, 0.01, (8, 16)) for name in bits}
    return ContestResult(8, 4, 2, 2, models, trainings, trainings, (2, 8), {})


@pytest.mark.parametrize("name", ["patterns", "images"])
def test_contests_say_what_dense_attention_needs(name: str) -> None:
    result = result_of(name)
    dense = result.contest.final_bits("dense").mean()
    assert f"{dense:.3f}" in check(page_of(name, result))[0]


def test_contests_compare_with_dense_attention_and_with_a_window_alone() -> None:
    bits = {"dense": [1.2, 1.2], "strided": [0.8, 0.9], "fixed": [1.3, 1.4], "local": [1.0, 1.1]}
    said = contest_found(contest_of(bits), "byte", {"bytes": 2.0, "pairs": 1.5})
    assert said == [
        "For the same compute, strided and local need fewer bits per byte than dense attention, "
        "0.850 to 1.050 against 1.200; fixed needs more bits per byte than dense attention, 1.350 "
        "against 1.200; a model that only counts needs 1.500.",
        "Of all, strided needs fewest bits, 0.850 per byte; strided does better than the window "
        "alone (local).",
    ]
    bits = {"dense": [1.2, 1.2], "strided": [1.0, 1.3], "local": [1.0, 1.1]}
    said = contest_found(contest_of(bits), "byte", {"pairs": 1.5})
    assert "strided cannot be told apart from dense attention" in said[0]
    assert "strided is not seen to do better than the window alone (local)" in said[1]


def test_contests_in_which_gates_failed_say_so() -> None:
    bits = {"dense": [1.6, 1.4], "strided": [0.8, 0.9], "fixed": [1.3, 1.7], "local": [1.0, 1.1]}
    said = contest_found(contest_of(bits), "byte", {"pairs": 1.5})
    assert said[0] == (
        "Whether a sparse pattern does as well as dense attention for the same compute cannot be "
        "told: dense, at 1.500 bits per byte, does not beat a model that only counts (pairs: "
        "1.500)."
    )
    assert said[2] == "Fixed is not compared: not every training beats a model that counts."
    lost = contest_found(contest_of({**bits, "dense": [1.4, np.inf]}), "byte", {"pairs": 1.5})
    assert "dense, of which a training diverged, does not beat" in lost[0]
    none = contest_found(contest_of(bits), "byte", {"pairs": 0.5})
    assert none == [
        "Nothing can be told of these patterns: none beats a model that only counts (pairs: 0.500) "
        "in every training; the best has 0.850 bits per byte."
    ]
    alone = contest_found(contest_of({"strided": [0.8, 0.9]}), "byte", {"pairs": 1.5})
    assert alone == ["Of what was compared, strided needs fewest bits, 0.850 per byte."]


def test_sorting_says_what_a_window_would_give_and_what_the_best_model_has() -> None:
    result = result_of("sorting")
    said = check(page_of("sorting", result))
    trained = result.trained[-1]
    at = result.tested.index(trained)
    assert f"counting the last {result.window_name} tokens gives" in said[0]
    assert f"gives {result.counting_window[at]:.0%}." in said[0]
    # A window that knows nothing is beaten by whoever passed.
    easy = replace(result, counting_window=(0.0,) * len(result.tested))
    models = {name: replace(one, counting=()) for name, one in result.models.items()}
    seen = sorting_found(replace(easy, models=models, chance=0.0))
    assert f"{len(models)} models are seen to remember more than a window" in seen[0]
    assert f"{len(models)} models are seen" in seen[1]
    assert len(seen) == 2


def test_sorting_of_models_that_learnt_nothing_says_that_nothing_can_be_told() -> None:
    result = result_of("sorting")
    trials = tuple(replace(one, outcome=Diverged("nan")) for one in result.trials)
    said = check(page_of("sorting", replace(result, trials=trials)))
    assert len(said) == 1
    assert said[0].startswith("Nothing can be told: after ")
    assert said[0].endswith(f"guessing {result.chance:.0%}.")


@pytest.mark.parametrize("name", [one for one in OF_STUDIES if one.startswith("translation")])
def test_translation_says_who_translates_the_longest_best(name: str) -> None:
    result = result_of(name)
    said = check(page_of("translation", result))
    mean = {model: result.bleu(model)[:, -1].mean() for model in result.present}
    best = max(mean, key=lambda model: mean[model])
    assert f"{result.words[-1]:.0f} words" in said[0]
    assert label(best) in said[0]
    assert f"{mean[best]:.1f} BLEU" in said[0]
    wrong = max(group.wrong for one in result.present for group in [result.first(one).lengths[-1]])
    assert f"no model has more than {wrong:.1f}" in said[0] or len(result.scored(best)) > 1


def test_translation_of_models_that_say_anything_is_not_called_translation() -> None:
    result = result_of("translation")

    def aimless(one: Any) -> Any:
        groups = tuple(replace(group, wrong=group.bleu) for group in one.outcome.lengths)
        return replace(one, outcome=replace(one.outcome, lengths=groups))

    nothing = replace(result, trials=tuple(map(aimless, result.trials)))
    assert check(page_of("translation", nothing)) == [
        "No model has learnt to translate: none has a BLEU of 1 more than against the references "
        "of another sentence, in every training."
    ]
    some = tuple(aimless(one) if one.model == "vector" else one for one in result.trials)
    said = translation_found(replace(result, trials=some))
    assert said[2].startswith("One vector is not compared: ")
    assert "one vector" not in said[1]  # nor is said what length costs it
