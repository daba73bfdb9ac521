"""The page of the study `dialogue`: every figure and every sentence is computed from its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mnemoscope.core.statistics import RESAMPLES as DRAWS
from mnemoscope.core.statistics import Estimate
from mnemoscope.plots.figure import Reference, Series, bars, lines
from mnemoscope.report.claims import claims_table
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.dialogue.claims import (
    LEAST_SHARE,
    claims_of,
    findings,
    gate_of,
    gates_of_bounds,
    stop_rule,
)
from mnemoscope.studies.dialogue.contestants import CEILING, FLOOR
from mnemoscope.studies.dialogue.groups import KINDS
from mnemoscope.studies.dialogue.reading_page import reading_section
from mnemoscope.studies.dialogue.recovered import Recovered
from mnemoscope.studies.dialogue.result import DialogueResult
from mnemoscope.studies.findings import lead
from mnemoscope.studies.sentences import best_rates, mean_or_none, ranked, signs
from mnemoscope.studies.study import Diverged

_BAND = f"Line: 95 % of {DRAWS} bootstrap draws of seeds and conversations."
_SHARE = "share of the recoverable gain"
_BOUNDS = [Reference(0, "no document"), Reference(1, "all in sight")]
# What was read before the conversation, and what a bar then shows.
CONTROLS = {"own": "its own document", "none": "no document", "another": "another one's document"}
# States whose sizes differ by more than this factor are not called equal.
EQUAL = 1.1


def page(result: DialogueResult) -> list[Section]:
    """Build the sections of the page."""
    found = Recovered(result)
    if not found.trials:
        return [Section("What was found", ["Nothing: all trainings diverged.", *_diverged(result)])]
    between = found.bounded and bool(found.contestants)
    figure = _shares_figure(found) if between else _losses_figure(found)
    sections = [lead(findings(found), figure), _bounds(found, between)]
    if between:
        sections += [_recovered(found), _controls(found), *_by_place(found)]
    return [
        *sections,
        *_spoken(found),
        *reading_section(found),
        _trained(found),
        _carried(found),
    ]


def _estimated(
    name: str, x: Sequence[Any], estimates: Sequence[Estimate], style: int | None = None
) -> Series:
    mean, low, high = zip(*((one.mean, one.low, one.high) for one in estimates), strict=True)
    return Series(name, x, mean, low, high, style)


def _shares_figure(found: Recovered) -> Figure:
    groups = [name for name in ("all", "document") if found.has(name)]
    labels = [found.labels[model] for model in found.contestants]
    series: list[Series] = []
    rows: list[dict[str, Cell]] = []
    for group in groups if _differ(found, groups) else groups[:1]:
        shares = [found.share(model, group) for model in found.contestants]
        series.append(_estimated(KINDS[group], labels, shares))
        rows += [
            {"model": label, "tokens": KINDS[group], **one.cells(_SHARE)}
            for label, one in zip(labels, shares, strict=True)
        ]
    return Figure(
        "Share of the recoverable gain",
        bars(series, "", _SHARE, references=_BOUNDS),
        "(floor − memory) / (floor − ceiling) of the loss of the replies: 0 is a model that saw no "
        f"document, 1 one that sees all of it. {_BAND}",
        rows,
    )


def _differ(found: Recovered, groups: Sequence[str]) -> bool:
    """Whether groups hold different tokens: made-up replies are words of the document alone."""
    places = [found.result.groups.index(group) for group in groups]
    return len({float(found.counts[:, place].sum()) for place in places}) > 1


def _losses_figure(found: Recovered) -> Figure:
    groups = [name for name in KINDS if found.has(name)]
    series = [
        Series(
            label,
            [KINDS[group] for group in groups],
            [float(found.loss(model, group).mean()) for group in groups],
        )
        for model, label in found.labels.items()
    ]
    return Figure(
        "Loss by kind of word",
        bars(series, "", "loss (nats per token)"),
        "Of what is said in replies, mean of the seeds.",
        _loss_rows(found, groups),
    )


def _loss_rows(found: Recovered, groups: Sequence[str]) -> list[dict[str, Cell]]:
    return [
        {"model": label, "tokens": KINDS[group], "seed": seed, "nats per token": value}
        for model, label in found.labels.items()
        for group in groups
        for seed, value in enumerate(found.loss(model, group).tolist())
    ]


def _bounds(found: Recovered, between: bool) -> Section:
    """Floor and ceiling: is there anything to recover?"""
    result = found.result
    rows = result.conversations
    documents, turns = (
        [getattr(one, k) for one in rows] for k in ("document_tokens", "turn_tokens")
    )
    where = f"{result.source}: " if result.source else "A made-up corpus: "
    words: list[str | Figure | Table] = [
        f"{where}{len(rows)} conversations were held out; their documents have "
        f"{np.mean(documents):.0f} tokens in the mean, what is said about them "
        f"{np.mean(turns):.0f}. A window has {result.window}. The loss is that of the replies "
        "alone. Floor: full attention over the conversation, trained and tested without any "
        "document. Ceiling: the same over document and conversation.",
        stop_rule(found),
        *result.warnings,
        *_diverged(result),
    ]
    if found.bounded:
        told = "; ".join(str(gate) for gate in gates_of_bounds(found))
        words.append(f"Gates of floor and ceiling, in every seed: {told}.")
    if between:
        words.append(_losses_figure(found))
    words.append(_loss_table(found, "Loss of the replies"))
    ratings = sorted({one.rating for one in rows if one.rating is not None})
    if len(ratings) > 1:
        best = Recovered(result, ratings[-1])
        words.append(_loss_table(best, f"Loss of the replies, rating {ratings[-1]}"))
    return Section("Floor and ceiling", words)


def _loss_table(found: Recovered, name: str) -> Table:
    """Losses by kind of word, perplexity per word, and what is foreseen."""
    groups = [group for group in KINDS if found.has(group)]
    table: list[list[Cell]] = []
    for model, label in found.labels.items():
        losses = [float(found.loss(model, group).mean()) for group in groups]
        right = float(found.accuracy(model).mean())
        row: list[Cell] = [label, *losses, float(found.perplexity(model).mean()), right]
        if found.bounded:
            inside = model not in (FLOOR, CEILING)
            row.append(_brief(found.share(model)) if inside else None)
        table.append(row)
    columns = ["model", *(KINDS[group] for group in groups), "perplexity per word", "foreseen"]
    return Table(
        name,
        [*columns, *([_SHARE] if found.bounded else [])],
        table,
        f"{int(found.chosen.sum())} conversations. Nats per token, mean of the seeds. Foreseen: "
        "share of the tokens that were held likeliest.",
    )


def _brief(one: Estimate) -> str:
    return f"{one.mean:.2f} ({one.low:.2f} to {one.high:.2f})"


def _diverged(result: DialogueResult) -> list[str]:
    lost = [
        one
        for one in result.trials
        if isinstance(one.outcome, Diverged) and one.lr == result.models[one.model].lr
    ]
    if not lost:
        return []
    names = ", ".join(f"{result.models[one.model].label} (seed {one.seed})" for one in lost)
    return [f"Trainings that diverged and are left out of all that follows: {names}."]


def _recovered(found: Recovered) -> Section:
    """Who recovers how much, with claims and their sizes."""
    shares = {found.labels[model]: found.shares(model) for model in found.contestants}
    failed = [found.labels[m] for m in found.contestants if not gate_of(found, m).passed]
    words: list[str | Figure | Table] = [
        f"Share of the gain, highest first: {ranked(shares, LEAST_SHARE, failed=failed)}. "
        f"{signs(LEAST_SHARE, 'of the gain')} A memory passes its gate if it is, in every seed, no "
        "worse than no document at all."
    ]
    groups = [group for group in KINDS if found.has(group)]
    if not _differ(found, groups):
        groups = groups[:1]
    rows: list[list[Cell]] = [
        [found.labels[model], *(_brief(found.share(model, group)) for group in groups)]
        for model in found.contestants
    ]
    words.append(
        Table(
            "Shares by kind of word",
            ["model", *(KINDS[group] for group in groups)],
            rows,
            f"{_SHARE.capitalize()}; in brackets 95 % of {DRAWS} bootstrap draws of seeds and "
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
        f"{_BAND}",
        [{"model": label, **one.cells("right")} for label, one in right.items()],
    )


def _controls(found: Recovered) -> Section:
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


def _by_place(found: Recovered) -> list[Section]:
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
            {"model": found.labels[model], kind: number, **one.cells(_SHARE)}
            for number, one in zip(groups, shares, strict=True)
        ]
    drawn = lines(series, title, _SHARE, references=_BOUNDS, log_x=kind == "age")
    return Figure(f"Share by {kind}", drawn, caption, rows)


def _spoken(found: Recovered) -> list[Section]:
    """How like the true replies those are that models give themselves."""
    rows: list[list[Cell]] = []
    for model, label in found.labels.items():
        for place, first in enumerate(found.trials[model][0].replies):
            seeds = [one.replies[place] for one in found.trials[model]]
            scores = [
                float(np.mean([getattr(one, name) for one in seeds]))
                for name in ("f1", "rouge_1", "rouge_l", "meteor", "bleu")
            ]
            rows.append([label, first.how, first.count, *scores])
    if not rows:
        return []
    words = (
        "Each model gave one reply in each of some conversations, having read all before it. What "
        "was really said is one of many good answers, so these scores are low for everybody; they "
        "are here because the field reports them."
    )
    columns = ["model", "replies", "count", "F1", "ROUGE-1", "ROUGE-L", "METEOR (exact)", "BLEU"]
    caption = "Mean of the seeds. METEOR matches exact words alone; BLEU is sacreBLEU's."
    return [Section("What they say", [words, Table("Replies", columns, rows, caption)])]


def _trained(found: Recovered) -> Section:
    """How rates were chosen."""
    result = found.result
    rates = sorted({one.lr for one in result.trials})
    best = {facts.label: facts.lr for facts in result.models.values()}
    rows: list[list[Cell]] = []
    for model, facts in result.models.items():
        first = {
            one.lr: one.outcome for one in result.trials if (one.model, one.seed) == (model, 0)
        }
        losses: list[Cell] = [
            None if lr not in first or isinstance(one := first[lr], Diverged) else one.valid
            for lr in rates
        ]
        rows.append([facts.label, *losses])
    words = (
        "Every rate was tried with the first seed and chosen by the loss on the valid part; the "
        f"other seeds were trained with it. Chosen: {best_rates(best, rates)}"
    )
    table = Table(
        "Loss by learning rate",
        ["model", *(f"{rate:g}" for rate in rates)],
        rows,
        "Nats per token on the valid part, first seed.",
    )
    return Section("How they were trained", [words, table])


def _carried(found: Recovered) -> Section:
    """Sizes of models and states."""
    rows: list[list[Cell]] = []
    for model, label in found.labels.items():
        facts = found.result.models[model]
        time = mean_or_none([one.seconds for one in found.trials[model]])
        rows.append([label, facts.parameters, facts.width, facts.state_bytes, time])
    held = {m: found.result.models[m].state_bytes for m in found.contestants}
    usual = held.get("transformer_xl") or max(held.values(), default=0)
    other = [
        found.labels[m] for m, size in held.items() if not usual / EQUAL <= size <= usual * EQUAL
    ]
    words = (
        "All have the same parameters, to one unit of a feed-forward layer, and as many vectors in "
        "their state where they can: half for the last tokens, half for what is older."
    )
    if other:
        words += (
            f" Of another size: {', '.join(other)}. A window alone carries nothing, and a "
            "recurrent state has the size of its width."
        )
    table = Table(
        "Sizes",
        ["model", "parameters", "width", "state bytes", "training s"],
        rows,
        "State of one conversation at the end of the longest, measured at the end of a window; the "
        "ceiling's grows with what it reads. Time of one training on one thread.",
    )
    return Section("What each carries", [words, table])
