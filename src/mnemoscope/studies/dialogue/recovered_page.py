"""The part of the page of `dialogue` on shares: who recovers how much, and of which words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mnemoscope.core.statistics import RESAMPLES as DRAWS
from mnemoscope.core.statistics import Estimate
from mnemoscope.plots.figure import Reference, Series, bars, lines
from mnemoscope.report.claims import claims_table
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.dialogue.bounds_page import SHARE, brief
from mnemoscope.studies.dialogue.claims import (
    LEAST_SHARE,
    claims_of,
    gate_of,
)
from mnemoscope.studies.dialogue.contestants import CEILING
from mnemoscope.studies.dialogue.groups import KINDS
from mnemoscope.studies.dialogue.recovered import Recovered
from mnemoscope.studies.sentences import ranked, signs

BAND = f"Line: 95 % of {DRAWS} bootstrap draws of seeds and conversations."
_BOUNDS = [Reference(0, "no document"), Reference(1, "all in sight")]
_ONE_TRAINING = (
    "There is one training of each model, or none: in the place of seeds stand both ends of its "
    "interval over conversations, and what is claimed must hold at both."
)
# What was read before the conversation, and what a bar then shows.
CONTROLS = {"own": "its own document", "none": "no document", "another": "another one's document"}


def shares_figure(found: Recovered) -> Figure:
    """The answer: one bar a memory between floor and ceiling."""
    groups = [name for name in ("all", "document") if found.has(name)]
    labels = [found.labels[model] for model in found.contestants]
    series: list[Series] = []
    rows: list[dict[str, Cell]] = []
    for group in groups if _differ(found, groups) else groups[:1]:
        shares = [found.share(model, group) for model in found.contestants]
        series.append(_estimated(KINDS[group], labels, shares))
        rows += [
            {"model": label, "tokens": KINDS[group], **one.cells(SHARE)}
            for label, one in zip(labels, shares, strict=True)
        ]
    return Figure(
        "Share of the recoverable gain",
        bars(series, "", SHARE, references=_BOUNDS),
        "(floor − memory) / (floor − ceiling) of the loss of the replies: 0 is a model that saw no "
        f"document, 1 one that sees all of it. {BAND}",
        rows,
    )


def recovered_section(found: Recovered) -> Section:
    """Who recovers how much, with claims and their sizes."""
    shares = {
        found.labels[model]: found.all_of(found.shares(model), found.share(model))
        for model in found.contestants
    }
    failed = [found.labels[m] for m in found.contestants if not gate_of(found, m).passed]
    words: list[str | Figure | Table] = [
        f"Share of the gain, highest first: {ranked(shares, LEAST_SHARE, failed=failed)}. "
        f"{signs(LEAST_SHARE, 'of the gain')} A memory passes its gate if it is, in every seed, no "
        "worse than no document at all.",
        *([_ONE_TRAINING] if found.single else []),
    ]
    groups = [group for group in KINDS if found.has(group)]
    if not _differ(found, groups):
        groups = groups[:1]
    rows: list[list[Cell]] = [
        [found.labels[model], *(brief(found.share(model, group)) for group in groups)]
        for model in found.contestants
    ]
    words.append(
        Table(
            "Shares by kind of word",
            ["model", *(KINDS[group] for group in groups)],
            rows,
            f"{SHARE.capitalize()}; in brackets 95 % of {DRAWS} bootstrap draws of seeds and "
            "conversations. Where the ceiling saves hardly anything, a share says little.",
        )
    )
    if found.result.chance is not None:
        words.append(_answers(found))
    words.append(claims_table("What is claimed", claims_of(found)))
    return Section("Who recovers how much", words)


def _answers(found: Recovered) -> Figure:
    chance = found.result.chance
    assert chance is not None
    right = {label: found.right(model) for model, label in found.labels.items()}
    return Figure(
        "Answers that are right",
        bars(
            [_estimated("right", list(right), list(right.values()))],
            "",
            "share of the answers",
            references=[Reference(chance, "chance")],
            y_range=(0, 1.03),
        ),
        f"The right answer is one of {round(1 / chance)} words, and stands once in the document. "
        f"{BAND}",
        [{"model": label, **one.cells("right")} for label, one in right.items()],
    )


def controls_section(found: Recovered) -> Section:
    """Is it this document that helps?"""
    series: list[Series] = []
    rows: list[dict[str, Cell]] = []
    models = [CEILING, *found.contestants]
    labels = [found.labels[model] for model in models]
    for control, name in CONTROLS.items():
        losses = [found.loss(model, "document", control) for model in models]
        means, lows, highs = ([float(f(one)) for one in losses] for f in (np.mean, np.min, np.max))
        series.append(Series(name, labels, means, lows, highs))
        rows += [
            {"model": label, "read": name, "seed": seed, "nats per token": value}
            for label, one in zip(labels, losses, strict=True)
            for seed, value in enumerate(one.tolist())
        ]
    figure = Figure(
        "Loss by what was read",
        bars(series, "", "nats per token of document words"),
        "The same replies after the conversation's own document, after none, and after that of "
        "another conversation. Bar: mean of the seeds; line: lowest to highest.",
        rows,
    )
    table = Table(
        "What another document costs",
        ["model", "no document", "another one's document"],
        [
            [found.labels[model], *(str(found.cost(model, one)) for one in ("none", "another"))]
            for model in models
        ],
        "Nats per token of document words more than with the own document; in brackets 95 % of "
        f"{DRAWS} bootstrap draws.",
    )
    words = (
        "A memory that holds this document is worse off with another. One that costs as much with "
        "any document holds nothing of it; one that suffers from none but not from another has "
        "learnt only that something comes first."
    )
    return Section("Is it this document?", [words, figure, table])


def sections_along(found: Recovered) -> list[Section]:
    """Shares by section of the document, and by age."""
    figures: list[Figure] = []
    ages = {number: one for number, one in found.numbered("age").items() if found.has(one)}
    if len(ages) > 1:
        figures.append(
            _along(
                found, "age", ages, "age (tokens since it was read)",
                "Words of the document by age: tokens since the answer was read, or, where that is "
                "not known, since the end of the section that the turn is about; from this age to "
                "twice as much. Band: 95 % of bootstrap draws.",
            )
        )  # fmt: skip
    sections = {number: one for number, one in found.numbered("section").items() if found.has(one)}
    if len(sections) > 1:
        figures.append(
            _along(
                found, "section", sections, "section of the document",
                "Words of the document by the section that the turn is about, the first one read "
                "first. Band: 95 % of bootstrap draws.",
            )
        )  # fmt: skip
    return [Section("By section and age", figures)] if figures else []


def _along(found: Recovered, kind: str, groups: dict[int, str], title: str, caption: str) -> Figure:
    """Shares of all contestants along ages or sections."""
    series: list[Series] = []
    rows: list[dict[str, Cell]] = []
    for style, model in enumerate(found.contestants):
        shares = [found.share(model, group) for group in groups.values()]
        series.append(_estimated(found.labels[model], list(groups), shares, style))
        rows += [
            {"model": found.labels[model], kind: number, **one.cells(SHARE)}
            for number, one in zip(groups, shares, strict=True)
        ]
    drawn = lines(series, title, SHARE, references=_BOUNDS, log_x=kind == "age")
    return Figure(f"Share by {kind}", drawn, caption, rows)


def _differ(found: Recovered, groups: Sequence[str]) -> bool:
    """Whether groups hold different tokens: made-up replies are words of the document alone."""
    places = [found.result.groups.index(group) for group in groups]
    return len({float(found.counts[:, place].sum()) for place in places}) > 1


def _estimated(
    name: str, x: Sequence[Any], estimates: Sequence[Estimate], style: int | None = None
) -> Series:
    mean, low, high = zip(*((one.mean, one.low, one.high) for one in estimates), strict=True)
    return Series(name, x, mean, low, high, style)
