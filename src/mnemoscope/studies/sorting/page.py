"""The page of the study `sorting`: every figure and every sentence is computed from its result."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mnemoscope.plots.figure import Reference, Region, Series, lines
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.sentences import SIGNS, all_banded, ranked
from mnemoscope.studies.sorting.attention_page import attention_sections
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
    return [_accuracy(result), _states(result), *attention_sections(result)]


def _accuracy(result: SortingResult) -> Section:
    words: list[str] = []
    for trained in result.trained:
        at = max(
            (length for length in result.tested if length <= trained), default=result.tested[0]
        )
        words.append(
            f"Trained on streams of {trained} tokens, told the right symbols so far, at {at}: "
            f"{ranked(result.scores_at(trained, at))}."
        )
        if result.tested[-1] > at:
            words.append(
                f"The same models after {result.tested[-1]}: "
                f"{ranked(result.scores_at(trained, result.tested[-1]))}."
            )
        words.append(_against_counting(result, trained, at))
    words.append(SIGNS)
    figures = [_by_length(result, trained, way) for trained in result.trained for way in WAYS]
    if len(result.trained) > 1:
        figures.insert(0, _at_own_length(result))
    return Section("What was seen", [*words, *figures])


def _against_counting(result: SortingResult, trained: int, length: int) -> str:
    level = result.counting_window[result.tested.index(length)]
    values = result.scores_at(trained, length)
    beat = [name for name, seeds in values.items() if seeds.min() > level]
    others = [name for name in values if name not in beat]
    if not beat:
        return (
            f"Nobody beats, with all seeds, one who counts the last {result.window} tokens "
            f"exactly ({level:.2f}): nothing shows that more than that is remembered."
        )
    rest = f" {_list(others)} did not." if others else ""
    return (
        f"{_list(beat)} answered better than one who counts the last {result.window} tokens "
        f"exactly ({level:.2f}), so they remember more than that.{rest}"
    )


def _list(names: Sequence[str]) -> str:
    quoted = [f"“{name}”" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def _by_length(result: SortingResult, trained: int, way: Way) -> Figure:
    tested, window = result.tested, result.window
    scores = {
        facts.label: result.scores(model, trained, way) for model, facts in result.models.items()
    }
    series, rows = all_banded(tested, scores, COLUMNS)
    references = []
    title, meaning = WAYS[way]
    seeds = len(next(iter(scores.values())))
    caption = f"{title}: {meaning}. Line: mean of {seeds} seeds; band: lowest to highest."
    if way == "forced":
        counting = {
            "counts all": result.counting_all,
            f"counts the last {window}": result.counting_window,
        }
        for name, values in counting.items():
            series.append(Series(name, tested, values))
            rows += [
                {"model": name, "seed": None, "length": length, "accuracy": value}
                for length, value in zip(tested, values, strict=True)
            ]
        references = [Reference(result.chance, "chance")]
        caption += (
            " “counts …” are not models: they know the exact counts of that many tokens, but not "
            "which of two equals came first."
        )
    inside = Region(tested[0], trained, "up to the trained length")
    return Figure(
        f"{title}, trained at {trained}",
        lines(
            series,
            "tokens in the stream",
            "symbols named in their place",
            references=references,
            region=inside if tested[0] < trained else None,
            log_x=True,
            y_range=(0, 1.03),
        ),
        caption,
        rows,
    )


def _at_own_length(result: SortingResult) -> Figure:
    lengths = [length for length in result.trained if length in result.tested]
    own = {length: result.scores_at(length, length) for length in lengths}
    labels = [facts.label for facts in result.models.values()]
    scores = {name: np.stack([own[n][name] for n in lengths], 1) for name in labels}
    series, rows = all_banded(lengths, scores, COLUMNS)
    return Figure(
        "Every model at the length it was trained on",
        lines(
            series,
            "tokens in the stream",
            "symbols named in their place",
            references=[Reference(result.chance, "chance")],
            y_range=(0, 1.03),
        ),
        "Teacher-forced. A training of its own at every length. Band: lowest to highest seed.",
        rows,
    )


def _states(result: SortingResult) -> Section:
    longest, trained = result.tested[-1], result.trained[-1]
    accuracy = result.scores_at(trained, longest)
    rows: list[list[Cell]] = []
    for model, facts in result.models.items():
        seconds = [one.seconds for one in result.examined(model, trained)]
        time = float(np.mean(seconds)) if seconds else None
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
