"""The page of the study `retention`, drawn from results that are made by hand."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mnemoscope.core.data import from_plain, to_plain
from mnemoscope.lenses.retention.result import Cost, Points
from mnemoscope.report.document import Figure, Finding, Section, Table
from mnemoscope.studies.retention.page import age_range, page
from mnemoscope.studies.retention.result import (
    Examined,
    Memory,
    RetentionResult,
    Size,
    Trained,
    front,
    unstable,
)
from mnemoscope.studies.study import Diverged

RATES = {0.01: 1.5, 0.1: 1.0, 0.5: 1.2}  # and the held-out loss at each
AGES, ITEMS, OVERWRITES = (1, 4, 16), (1, 2), (0, 1)


def curve(x: tuple[int, ...], bits: list[float]) -> Points:
    size = len(x)
    ends = tuple(bits)
    none, some = (0.0,) * size, (0.25,) * size
    carried = (8.0,) * size
    return Points(
        x, ends, ends, ends, none, some, (3.0,) * size, (0.5,) * size, carried, (8,) * size
    )


def examined(bits: float, size: int, choosing: float = 1.0) -> Examined:
    """A model that recalls ``bits`` at the first age, and at most ``2 * bits`` of two items."""
    return Examined(
        curves={
            "age": curve(AGES, [bits, bits / 2, 0.0]),
            "items": curve(ITEMS, [bits, 2 * bits]),
            "overwrites": curve(OVERWRITES, [2 * bits, bits]),
        },
        half_life=4.0,
        horizon=None,
        capacity=2 * bits,
        bytes=float(size),
        flops=1000,
        choosing=choosing,
        seconds=1.0,
    )


def made(values: dict[str, list[float]], sizes: dict[str, int] | None = None) -> RetentionResult:
    """A result with one size and known bits, per memory and seed; rate 0.1 is the best of three."""
    trials = []
    for name, found in values.items():
        carried = (sizes or {}).get(name, 8)
        for rate, loss in RATES.items():
            for seed, bits in enumerate(found):
                if rate == 0.1 or seed == 0:
                    right = bits if rate == 0.1 else 0.0
                    facts = examined(right, carried, loss)
                    trials.append(Trained(name, 1, rate, seed, f"{name}{rate}{seed}", facts))
    cost = Cost((8, 32), (80, 320), (10, 20))
    memories = tuple(Memory(n, n.upper(), "kin", "width", (Size(1, 7, cost),)) for n in values)
    return RetentionResult(8, 2, 1, 10, 16, len(trials), memories, tuple(trials))


def told(sections: list[Section]) -> str:
    return "\n".join(part for one in sections for part in one.parts if isinstance(part, str))


def figures(sections: list[Section]) -> dict[str, Figure]:
    return {p.name: p for one in sections for p in one.parts if isinstance(p, Figure)}


def numbers(values: Any) -> Any:
    """The numbers of a curve; plotly packs those of a figure that is made of others."""
    if isinstance(values, dict):
        return np.frombuffer(base64.b64decode(values["bdata"]), values["dtype"])
    return values


def plain(sections: list[Section]) -> Any:
    """All that a page says and draws."""
    return [
        [
            [one.title],
            *(
                (part.name, part.caption, part.figure.to_json(), part.data)
                if isinstance(part, Figure)
                else part
                for part in one.parts
            ),
        ]
        for one in sections
    ]


def test_the_page_says_and_draws_the_numbers_of_the_result() -> None:
    bits = {"a": [2.0, 1.0], "b": [0.5, 0.25]}
    result = made(bits, {"a": 64, "b": 16})
    sections = page(result)
    said = told(sections)
    assert [one.title for one in sections] == [
        "What was found",
        "Bits for bytes",
        "More to keep, and values that change",
        "What it costs to continue",
        "Who before whom, and in every seed?",
        "The learning rate decides",
        "Controls and limits",
    ]
    # Age 4 is the oldest below the length of 10; half of the bits is left there.
    assert "Bits recalled at age 4, the oldest age seen in training: A (0.75) > B (0.19)." in said
    assert "Bits recalled at age 16, beyond all training: A (0.00) ≈ B (0.00)." in said
    front_said = "B at width 1 (0.8 bits in 16 bytes); A at width 1 (3.0 bits in 64 bytes)"
    assert f"from small to large: {front_said}." in said
    assert "Most bits per byte, by mean: A at width 1, with 0.047 of the 8 bits" in said
    assert "With 2 items stored, each asked once: A (3.00) > B (0.75), of 6 bits." in said
    assert "With 1 of 1 items overwritten, A loses most, 1.5 bits." in said
    assert "the state keeps growing in A (4 times), B (4 times)" in said
    assert "By bits over all ages the order is the same in all 2 seeds: A (0.75) > B (0.19)" in said
    assert "trained at the best: A 0.1, B 0.1. No best rate lies at an end of the sweep." in said
    assert "Trainings that diverged: 0 of 8." in said
    assert (
        "no model recalled more than 0.00 bits; with the answers of another episode, 0.25" in said
    )
    assert "In 8 trainings no model recalled more than 0.500 bits per byte" in said

    drawn = figures(sections)
    by_age = drawn["Recall against age"].data
    assert len(by_age) == 4 * len(AGES)
    wanted = {("A", seed, 1): value for seed, value in enumerate(bits["a"])}
    assert {
        (row["model"], row["seed"], row["age"]): row["bits"]
        for row in by_age
        if row["model"] == "A" and row["age"] == 1
    } == wanted
    curves = {line.name: line for line in drawn["Recall against age"].figure.data if line.name}
    np.testing.assert_allclose(numbers(curves["A"].y), [1.5, 0.75, 0.0])
    losses = {(r["model"], r["lr"]): r["loss"] for r in drawn["Loss against learning rate"].data}
    assert losses == {(name, rate): loss for name in "AB" for rate, loss in RATES.items()}
    table = next(part for part in sections[1].parts if isinstance(part, Table))
    assert table.rows[0] == ["A", 1, 7, 64, 3.0, 0.0469, 3000.0, "4", ">\u00a016"]


@pytest.mark.parametrize("done", [0, 1, 5, 8])
def test_a_result_comes_back_from_json_and_gives_the_same_page(done: int) -> None:
    whole = made({"a": [2.0, math.nan], "b": [0.5, 0.25]})
    diverged = replace(whole.trials[-1], found=Diverged("the loss is nan"))
    result = replace(whole, trials=(*whole.trials[:-1], diverged)[:done])
    again = from_plain(RetentionResult, json.loads(json.dumps(to_plain(result))))
    assert repr(again) == repr(result)  # nan equals nothing
    assert repr(plain(page(again))) == repr(plain(page(result)))


def test_a_result_without_nan_comes_back_equal() -> None:
    result = made({"a": [2.0, 1.0], "b": [0.5, 0.25]})
    assert from_plain(RetentionResult, json.loads(json.dumps(to_plain(result)))) == result


def findings(result: RetentionResult) -> list[str]:
    """The sentences that a page leads with, and that it is a finding that holds them."""
    lead = page(result)[0]
    assert isinstance(lead, Finding)
    return [part for part in lead.parts if isinstance(part, str)]


def test_the_page_leads_with_who_recalls_most_within_training_beyond_it_and_per_byte() -> None:
    said = findings(made({"a": [2.0, 1.0], "b": [0.5, 0.25]}, {"a": 64, "b": 16}))
    # Half of the bits is left at age 4, nothing at 16; a twentieth of 3 bits is the least.
    assert said == [
        "After 4 tokens, the oldest age seen in training, A recalls most, 0.75 of 3 bits; with the "
        "state emptied after the last write, no memory recalls more than 0.00.",
        "After 16 tokens, beyond all training, no memory recalls as much as 0.15 bits.",
        "Per byte carried, A recalls most: 3.0 bits of an episode in 64 bytes, though not more "
        "than B in every seed; A recalls the most of all, 3.0 bits, the first from 64 bytes.",
    ]


def test_a_lead_that_seeds_do_not_agree_on_is_not_claimed() -> None:
    first = findings(made({"a": [2.0, 1.0], "b": [1.5, 1.0], "c": [0.0, 2.0], "d": [0.2, 0.2]}))[0]
    assert "A, B cannot" not in first
    assert "A and B recall most, 0.62 to 0.75 of 3 bits, and cannot be told apart" in first
    # Its first seed has not learnt the task.
    second = findings(made({"a": [2.0, 1.0], "b": [1.5, 1.0], "c": [0.0, 2.0]}))[1]
    assert second.endswith("; C did not learn the task.")


def test_of_memories_that_learnt_nothing_nothing_is_said() -> None:
    assert findings(made({"a": [0.1, 0.0], "b": [0.0, 0.0]})) == [
        "No memory has learnt the task: at age 1 none recalls more than 0.15 of 3 bits in every "
        "seed."
    ]


def test_a_study_in_which_every_training_diverged_says_so() -> None:
    whole = made({"a": [2.0], "b": [1.0]})
    lost = tuple(replace(one, found=Diverged("nan")) for one in whole.trials)
    assert told(page(replace(whole, trials=lost))).startswith("Every training diverged")


def beside(result: RetentionResult) -> RetentionResult:
    shipped = made({"a": [2.8, 2.6], "z": [1.0, 1.0]})
    return replace(result, shipped=shipped, shipped_on="2026-11-16")


def test_the_shipped_result_is_shown_until_the_run_is_whole_and_its_curves_join_it() -> None:
    whole = made({"a": [2.0, 1.0], "b": [0.5, 0.25]})
    nothing = beside(replace(whole, memories=(), trials=()))
    some = beside(replace(whole, trials=whole.trials[:3]))
    for result, done in ((nothing, 0), (some, 3)):
        said = findings(result)
        assert "the full study that is shipped with mnemoscope, made on 2026-11-16" in said[0]
        assert f"{done} of 8 trainings are done, and their curves join it." in said[0]
        # The sentences that follow are of the shipped result.
        assert "A recalls most, 1.35 of 3 bits" in said[1]

    def drawn(result: RetentionResult) -> dict[str, Any]:
        lead = figures(page(result)[:1])["Recall against age"]
        return {line.name: numbers(line.y) for line in lead.figure.data if line.name}

    assert set(drawn(nothing)) == {"<i>A</i>", "<i>Z</i>"}
    # Seed 0 of A alone, at its best rate so far.
    assert set(drawn(some)) == {"A", "<i>A</i>", "<i>Z</i>"}
    np.testing.assert_allclose(drawn(some)["A"], [1.5, 0.75, 0.0])
    np.testing.assert_allclose(drawn(some)["<i>A</i>"], [2.7, 1.35, 0.0])
    data = figures(page(some)[:1])["Recall against age"].data
    assert {row["model"] for row in data} == {"A", "A, shipped", "Z, shipped"}


def test_a_run_that_is_whole_speaks_for_itself_and_says_how_far_it_is_from_the_shipped() -> None:
    result = beside(made({"a": [2.0, 1.0], "b": [0.5, 0.25]}))
    said = findings(result)
    assert "A recalls most, 0.75 of 3 bits" in said[0]
    assert said[2] == (
        "At age 4, A is 0.60 bits from the result of the full study that is shipped with "
        "mnemoscope, made on 2026-11-16."
    )
    assert "Trainings that diverged: 0 of 8." in told(page(result))
    alone = replace(result, shipped=made({"z": [1.0]}))
    assert len(findings(alone)) == 2
    assert from_plain(RetentionResult, json.loads(json.dumps(to_plain(result)))) == result


def test_a_page_that_is_not_whole_says_what_is_missing() -> None:
    whole = made({"a": [2.0, 1.0], "b": [0.5]})
    some = page(replace(whole, trials=whole.trials[:3]))
    assert [one.title for one in some[:2]] == ["What was found", "Not finished"]
    assert some[0].parts[0] == "This is not the end: 3 of 7 trainings are done."
    assert "3 of 7 trainings are done" in told(some)
    assert "Seeds behind every curve: 2. Nothing is known yet of B." in told(some)
    assert "there is one seed only" in told(page(made({"a": [2.0], "b": [0.5]})))
    empty = page(replace(whole, trials=()))
    assert [section.title for section in empty] == ["Not finished"]


def test_the_best_rate_at_an_end_of_the_sweep_is_said() -> None:
    whole = made({"a": [2.0], "b": [1.0]})
    two = replace(whole, trials=tuple(one for one in whole.trials if one.lr >= 0.1))
    ends = "that of A is the lowest tried and that of B is the lowest tried"
    assert f"{ends}: beyond it there may be a better one." in told(page(two))
    one = replace(whole, trials=tuple(one for one in whole.trials if one.lr == 0.1))
    assert "There was one rate only: nothing was swept." in told(page(one))


def test_a_rate_that_diverged_is_not_chosen() -> None:
    whole = made({"a": [2.0]})
    memory = whole.memories[0]
    assert whole.lr(memory) == 0.1
    trials = [replace(one, found=Diverged("nan")) if one.lr == 0.1 else one for one in whole.trials]
    result = replace(whole, trials=tuple(trials))
    assert result.lr(memory) == 0.5
    assert "Trainings that diverged: 1 of 3." in told(page(result))
    assert math.isnan(replace(whole, trials=()).lr(memory))


def test_a_memory_that_recalls_nothing_is_not_ranked() -> None:
    said = told(page(made({"a": [2.0, 1.0], "b": [0.5, 0.0]})))
    assert "passed by A; not by B" in said
    assert "Bits recalled at age 4, the oldest age seen in training: A (0.75)." in said
    # Nor by what it recalls in all, per byte, or loses.
    assert (
        "With 2 items stored, each asked once: A (3.00); not passed: B (0.50), of 6 bits." in said
    )
    assert "these, from small to large: A at width 1 (3.0 bits in 8 bytes)." in said
    assert "overwritten, A " in said


def test_who_recalls_most_in_fewest_bytes_has_learnt_the_task() -> None:
    bits = {"a": [2.0, 1.0], "b": [3.0, 0.0]}  # of the second, one seed has learnt nothing
    said = told(page(made(bits, {"a": 64, "b": 8})))
    assert "Per byte carried, A recalls most" in said
    assert "Most bits per byte, by mean: A at width 1" in said
    assert "; not passed: B" in said
    assert "change places" not in said


def test_the_front_holds_those_that_nobody_beats() -> None:
    sizes = {"a": 10, "b": 20, "c": 40, "d": 80}
    result = made({"a": [1, 3], "b": [2, 2], "c": [5, 5], "d": [4, 4]}, sizes)
    assert [one.memory.name for one in front(result.points)] == ["a", "c"]
    same = made({"a": [1.0], "b": [2.0]}, {"a": 10, "b": 10})
    assert [one.memory.name for one in front(same.points)] == ["b"]


def test_an_order_is_stable_when_every_seed_has_it() -> None:
    values = {"a": np.array([3.0, 2.0]), "b": np.array([1.0, 1.0]), "c": np.array([0.5, 1.5])}
    assert unstable(values) == [("b", "c")]
    assert unstable({"a": values["a"], "b": values["b"]}) == []
    said = told(page(made({"b": [1.0, 1.0], "c": [0.5, 1.5]})))
    assert "the order is not stable: 1 of 1 pairs change places between 2 seeds (B and C)" in said


def test_a_diverged_training_recalls_nothing() -> None:
    result = made({"a": [3.0, 2.0]})
    trials = [
        replace(one, found=Diverged("nan")) if one.seed == 1 else one for one in result.trials
    ]
    result = replace(result, trials=tuple(trials))
    assert result.bits(result.memories[0], "age").tolist() == [[3.0, 1.5, 0.0], [0.0, 0.0, 0.0]]


def test_ages_are_said_with_their_limits() -> None:
    assert age_range([12.2, 8.0], 64) == "8 to 12"
    assert age_range([0, 0], 64) == "–"
    assert age_range([10, None], 64) == "10 to >\u00a064"
