"""The part of the page of `dialogue` on floor and ceiling: is there anything to recover?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mnemoscope.core.statistics import Estimate
from mnemoscope.plots.figure import Series, bars
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.dialogue.claims import (
    gates_of_bounds,
    stop_rule,
)
from mnemoscope.studies.dialogue.contestants import CEILING, FLOOR
from mnemoscope.studies.dialogue.groups import KINDS
from mnemoscope.studies.dialogue.recovered import Recovered
from mnemoscope.studies.dialogue.result import DialogueResult
from mnemoscope.studies.study import Diverged

SHARE = "share of the recoverable gain"


def losses_figure(found: Recovered) -> Figure:
    """Losses of all models by kind of word."""
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


def bounds_section(found: Recovered, between: bool) -> Section:
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
        f"alone. {_readers(result)}",
        stop_rule(found),
        *result.warnings,
        *diverged(result),
    ]
    if found.bounded:
        told = "; ".join(str(gate) for gate in gates_of_bounds(found))
        words.append(f"Gates of floor and ceiling, in every seed: {told}.")
    if between:
        words.append(losses_figure(found))
    words.append(_loss_table(found, "Loss of the replies"))
    ratings = sorted({one.rating for one in rows if one.rating is not None})
    if len(ratings) > 1:
        best = Recovered(result, ratings[-1])
        words.append(_loss_table(best, f"Loss of the replies, rating {ratings[-1]}"))
    return Section("Floor and ceiling", words)


def _readers(result: DialogueResult) -> str:
    """What floor and ceiling are."""
    if result.pretrained:
        return (
            f"{result.pretrained} reads, in {result.dtype}; nothing was trained, so there are no "
            "seeds, and intervals are over conversations. Floor: the conversation within the "
            "window, no document. Ceiling: document and conversation in its context."
        )
    return (
        "Floor: full attention over the conversation, trained and tested without any document. "
        "Ceiling: the same over document and conversation."
    )


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
            row.append(brief(found.share(model)) if inside else None)
        table.append(row)
    columns = ["model", *(KINDS[group] for group in groups), "perplexity per word", "foreseen"]
    return Table(
        name,
        [*columns, *([SHARE] if found.bounded else [])],
        table,
        f"{int(found.chosen.sum())} conversations. Nats per token, mean of the seeds. Foreseen: "
        "share of the tokens that were held likeliest.",
    )


def brief(one: Estimate) -> str:
    """A mean with its interval, for a cell."""
    return f"{one.mean:z.2f} ({one.low:z.2f} to {one.high:z.2f})"


def diverged(result: DialogueResult) -> list[str]:
    """Say which trainings came to nothing."""
    lost = [
        one
        for one in result.trials
        if isinstance(one.outcome, Diverged) and one.lr == result.models[one.model].lr
    ]
    if not lost:
        return []
    names = ", ".join(f"{result.models[one.model].label} (seed {one.seed})" for one in lost)
    return [f"Trainings that diverged and are left out of all that follows: {names}."]
