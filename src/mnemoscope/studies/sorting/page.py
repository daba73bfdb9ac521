"""The page of the study `sorting`: every figure and every sentence is computed from its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mnemoscope.lenses.lens import records
from mnemoscope.plots.figure import Plot, Reference, Region, Series, lines
from mnemoscope.report.claims import claims_table
from mnemoscope.report.document import Cell, Figure, Section, Table, finding
from mnemoscope.studies.sentences import all_banded, mean_or_none, over_seeds, ranked, signs
from mnemoscope.studies.sorting.ablation_page import (
    ablation_figure,
    ablation_sections,
    training_sections,
    turned,
)
from mnemoscope.studies.sorting.attention_page import attention_sections
from mnemoscope.studies.sorting.claims import (
    LEAST,
    asked_at,
    claims_of,
    findings,
    gates_of,
    shape_claims,
)
from mnemoscope.studies.sorting.result import SortingResult, Way

WAYS: dict[Way, tuple[str, str]] = {
    "forced": ("Teacher-forced", "it is told the right symbols so far"),
    "free": ("Speaking freely", "it reads its own answers, so that one mistake moves all others"),
}
COLUMNS = "length", "accuracy"
# States whose sizes differ by more than this factor are not called equal.
EQUAL = 1.1


def page(result: SortingResult) -> list[Section]:
    """Build the sections of the page."""
    lead, *figures = [
        _by_length(result, trained, way) for trained in result.trained for way in WAYS
    ]
    if len(result.trained) > 1:
        lead, figures = _at_own_length(result), [lead, *figures]
    if turned(result):
        lead, figures = ablation_figure(result), [lead, *figures]
    return [
        finding(*findings(result), figure=lead),
        Section("Asked in other ways", figures),
        *training_sections(result),
        *ablation_sections(result),
        _states(result),
        *attention_sections(result),
        _claimed(result),
    ]


def _claimed(result: SortingResult) -> Section:
    words: list[str | Table] = [
        "A model passes if each of its trainings is, at the trained length, as good as exact "
        f"counting of the tokens that its own cache and segment hold, to {LEAST}, or, without a "
        "cache, better than guessing; of others no order is claimed. "
        f"{signs(LEAST, 'of the answers')}"
    ]
    for trained in result.trained:
        gates, at = gates_of(result, trained), asked_at(result, trained)
        failed = [name for name, gate in gates.items() if not gate.passed]
        lengths = dict.fromkeys((at, max(at, result.tested[-1])))
        claims = [
            *claims_of(result, trained, gates, lengths),
            *shape_claims(result, trained, gates),
        ]
        words.append(claims_table(f"What is claimed, trained at {trained}", claims))
        orders = {
            length: ranked(result.scores_at(trained, length), least=LEAST, failed=failed)
            for length in lengths
        }
        told = "; ".join(f"after {length} tokens: {order}" for length, order in orders.items())
        words.append(
            f"Trained on streams of {trained} tokens, told the right symbols so far, {told}."
        )
    return Section("What is claimed, and who before whom", words)


def _by_length(result: SortingResult, trained: int, way: Way) -> Figure:
    tested = result.tested
    scores = {
        facts.label: result.scores(model, trained, way) for model, facts in result.models.items()
    }
    series, rows = all_banded(tested, scores, COLUMNS)
    references = []
    title, meaning = WAYS[way]
    seeds = len(next(iter(scores.values())))
    caption = f"{title}: {meaning}. {over_seeds(seeds)}"
    if way == "forced":
        counting = {
            "counts all": result.counting_all,
            f"counts the last {result.window_name}": result.counting_window,
        }
        for name, values in counting.items():
            series.append(Series(name, tested, values))
            rows += records(
                {"model": [name], "seed": [None], "length": tested}, {"accuracy": values}
            )
        references = [Reference(result.chance, "chance")]
        caption += (
            " “counts …” are not models: they know the exact counts of that many tokens, but not "
            "which of two equals came first."
        )
    inside = Region(tested[0], trained, "up to the trained length")
    return Figure(
        f"{title}, trained at {trained}",
        _drawn(
            series,
            references=references,
            region=inside if tested[0] < trained else None,
            log_x=True,
        ),
        caption,
        rows,
    )


def _drawn(series: Sequence[Series], **how: Any) -> Plot:
    titles = "tokens in the stream", "share of symbols right"
    return lines(series, *titles, y_range=(0, 1.03), **how)


def _at_own_length(result: SortingResult) -> Figure:
    lengths = [length for length in result.trained if length in result.tested]
    own = {length: result.scores_at(length, length) for length in lengths}
    labels = [facts.label for facts in result.models.values()]
    scores = {name: np.stack([own[n][name] for n in lengths], 1) for name in labels}
    series, rows = all_banded(lengths, scores, COLUMNS)
    return Figure(
        "Every model at the length it was trained on",
        _drawn(series, references=[Reference(result.chance, "chance")]),
        "Teacher-forced. A training of its own at every length. Band: lowest to highest seed.",
        rows,
    )


def _states(result: SortingResult) -> Section:
    longest, trained = result.tested[-1], result.trained[-1]
    accuracy = result.scores_at(trained, longest)
    rows: list[list[Cell]] = []
    for model, facts in result.models.items():
        time = mean_or_none([one.seconds for one in result.examined(model, trained)])
        mean = float(accuracy[facts.label].mean())
        rows.append([facts.label, facts.parameters, facts.state_bytes, mean, time])
    sizes = [facts.state_bytes for facts in result.models.values()]
    words = (
        f"States have between {min(sizes)} and {max(sizes)} bytes per stream, measured at the "
        "end of a segment. Keys and values of the whole stream would grow with it."
    )
    if max(sizes) > EQUAL * min(sizes):
        words += (
            " They are not of one size, so a model with more of it may be ahead for that alone: "
            "compare those whose states are alike."
        )
    return Section(
        "What each carries",
        [
            words,
            Table(
                "Sizes",
                ["model", "parameters", "state bytes", f"accuracy at {longest}", "training s"],
                rows,
                f"Models trained at {trained}; the time is that of one training on one thread.",
            ),
        ],
    )
