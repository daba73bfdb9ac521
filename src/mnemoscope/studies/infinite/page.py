"""The page of the study `infinite`: every sentence computed from the result."""

from __future__ import annotations

import math

import numpy as np

from mnemoscope.plots.figure import Reference, Series, lines
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.infinite.result import (
    KINDS,
    Attached,
    InfiniteResult,
    Past,
    best_without_past,
)
from mnemoscope.studies.sentences import LOSS, band, every, said

PASTS: dict[Past, str] = {
    "own": "its own past",
    "none": "no past",
    "other": "another text's past",
}
BOUND = "best that no past allows"


def page(result: InfiniteResult) -> list[Section]:
    """Build the sections of the page."""
    return [_made_up(result), _topics(result)]


def _verdicts(attached: Attached) -> list[str]:
    """What each memory gains, and whether that is surely above zero."""
    words = []
    for kind, label in KINDS.items():
        none, other = attached.gains(kind, "none"), attached.gains(kind, "other")
        words.append(
            f"{label}: the own past saves {said(none[:, 0], '+.3f')} nats per token over none, "
            f"surely {every(none[:, 1] > 0)}, and {said(other[:, 0], '+.3f')} over another "
            f"text's, surely {every(other[:, 1] > 0)}."
        )
    return words


def _table(attached: Attached, name: str) -> Table:
    rows: list[list[Cell]] = []
    for kind, label in KINDS.items():
        fits = attached.fits(kind)
        losses = [float(np.mean([fit.loss(past) for fit in fits])) for past in PASTS]
        gains = [float(attached.gains(kind, over)[:, 0].mean()) for over in ("none", "other")]
        rows.append([label, *losses, *gains, fits[0].bytes])
    return Table(
        name,
        ["memory", "own", "none", "another's", "over none", "over another's", "bytes"],
        rows,
        "Loss in nats per token after the own past, none and another text's, the first token of a "
        "window left out, and what the own past saves; means over seeds. Sure is what stays above "
        "zero in 95 % of redraws of the windows. Bytes: what one text carries between windows.",
    )


def _made_up(result: InfiniteResult) -> Section:
    fits = result.made_up.fits("signal")
    best = best_without_past(result.vocab_size, result.own, result.window)[1:]
    own = np.array([fit.loss("own") for fit in fits])
    return Section(
        "1 · Texts with words of their own",
        [
            f"Every text uses {result.own} of {result.vocab_size} words, with equal chances, so "
            f"all that the past can tell is which. Knowing them gives "
            f"{math.log(result.own):.2f} nats per token; the best that a window of "
            f"{result.window} tokens allows by itself is {np.mean(best):.2f}. With ∞-former's "
            f"signal the loss is {said(own)}: better than anything without a past can be "
            f"{every(own < np.mean(best))}.",
            *_verdicts(result.made_up),
            _along_a_window(result, best),
            _table(result.made_up, "Made-up texts"),
        ],
    )


def _along_a_window(result: InfiniteResult, best: list[float]) -> Figure:
    positions = list(range(2, result.window + 1))
    series, rows = [], list[dict[str, Cell]]()

    def add(label: str, seed: int | None, losses: list[float]) -> None:
        rows.extend(
            {"past": label, "seed": seed, "position": position, "loss": loss}
            for position, loss in zip(positions, losses, strict=True)
        )

    for past, label in PASTS.items():
        values = np.array([fit.losses[past] for fit in result.made_up.fits("signal")])
        series.append(band(label, positions, values))
        for seed, losses in enumerate(values.tolist()):
            add(label, seed, losses)
    series.append(Series(BOUND, positions, best))
    add(BOUND, None, best)
    known = Reference(math.log(result.own), "the words are known")
    return Figure(
        "Loss along a window",
        lines(series, "position in the window", LOSS, references=[known]),
        "∞-former's signal, trained alone on a frozen model. Line: mean over seeds; band: lowest "
        "to highest seed.",
        rows,
    )


def _topics(result: InfiniteResult) -> Section:
    sure = result.topics.gains("signal", "other")[:, 1] > 0
    found = f"That the signal holds something of the text it read is sure {every(sure)}."
    if not sure.any():
        found = "No use of the signal could be shown here."
    return Section(
        "2 · Help topics",
        [
            f"The small model of the study documents, windows of {result.topic_window} tokens; "
            "the memory learns on half of the topics that the model never saw, and "
            f"{result.topics.fits('signal')[0].windows} windows of the other half are read. "
            f"{found}",
            *_verdicts(result.topics),
            _table(result.topics, "Topics"),
        ],
    )
