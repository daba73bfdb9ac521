"""The page of the study `infinite`: every sentence computed from the result."""

from __future__ import annotations

import math

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.plots.figure import Reference, Series
from mnemoscope.report.claims import Claim, claims_table
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.curves import curves_figure
from mnemoscope.studies.findings import lead, not_passed
from mnemoscope.studies.infinite.novels_page import novels_page
from mnemoscope.studies.infinite.result import (
    KINDS,
    Attached,
    InfiniteResult,
    Kind,
    Over,
    Past,
    best_without_past,
)
from mnemoscope.studies.sentences import LOSS, Banded, banded, said

PASTS: dict[Past, str] = {
    "own": "its own state",
    "none": "no state",
    "other": "another text's state",
}
BOUND = "best without a state"
# Nats per token that count: one in a hundred tokens at half its surprise is more.
LEAST = 0.01


def page(result: InfiniteResult) -> list[Section]:
    """Build the sections of the page."""
    if result.novels is not None:
        return novels_page(result.novels)
    best = best_without_past(result.vocab_size, result.own, result.window)[1:]
    mean = float(np.mean(best))
    found = lead(_found(result, mean), _along_a_window(result, best))
    return [found, _made_up(result, mean), _topics(result)]


def _found(result: InfiniteResult, best: float) -> list[str]:
    """The sentences of the finding."""
    told = [_past_of(result.made_up, "On made-up texts"), _past_of(result.topics, "On help topics")]
    if result.made_up.gate.passed:
        place = {"seen": "below", "opposite": "above"}
        where = place.get(_beyond(result, best).verdict, "not told apart from")
        told.append(
            f"Its loss on made-up texts, {_own(result.made_up).mean():.2f} nats per token, is "
            f"{where} the {best:.2f} that a perfect reader of single windows would have."
        )
    return told


def _beyond(result: InfiniteResult, best: float) -> Claim:
    """Whether the signal does better than whoever sees single windows could."""
    return Claim(
        "∞-former's signal: better than anything without a state can be",
        best - _own(result.made_up),
        LEAST,
        "nats",
        [result.made_up.gate],
    )


def _past_of(attached: Attached, where: str) -> str:
    """What the own state saves on one sort of text."""
    failed = not_passed([attached.gate])
    if failed:
        return f"{where} nothing can be said of an attached memory: {failed}."
    # The unit is said once.
    units: dict[Over, str] = {"none": " nats per token", "other": ""}
    words = []
    for over, unit in units.items():
        gain, past = attached.gains("signal", over)[:, 0].mean(), PASTS[over]
        told = {
            "seen": f"saves {gain:.2f}{unit} over {past}",
            "opposite": f"costs {-gain:.2f}{unit} more than {past}",
            "unclear": f"saves {gain:.2f}{unit} over {past}, but not surely in every seed",
        }
        verdict = _saves(attached, "signal", over).verdict
        words.append(
            told.get(verdict, f"saves nothing that counts over {past} ({gain:+.2f}{unit})")
        )
    return f"{where} the attached ∞-former {words[0]} and {words[1]}."


def _own(attached: Attached) -> Floats:
    return np.array([fit.loss("own") for fit in attached.fits("signal")])


def _saves(attached: Attached, kind: Kind, over: Over) -> Claim:
    """Whether the own state surely saves as much as counts.

    What counts is the value of the interval over windows that is nearest to nothing.
    """
    _, low, high = attached.gains(kind, over).T
    text = f"{KINDS[kind]}: the own state saves something over {PASTS[over]}"
    return Claim(text, np.clip(0, low, high), LEAST, "nats", [attached.gate])


def _claims(attached: Attached, name: str, *more: Claim) -> Table:
    """What each memory gains, and whether that is surely as much as counts."""
    found, numbers = list(more), {}
    for kind in KINDS:
        for over in ("none", "other"):
            claim = _saves(attached, kind, over)
            found.append(claim)
            gains = attached.gains(kind, over)[:, 0]
            numbers[claim.text] = f"{said(gains, '+.3f')} nats per token"
    return claims_table(name, found, more=numbers)


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
        "Loss in nats per token with the own state, none and another text's, the first token of a "
        "window left out, and what the own state saves; means over seeds. Sure is what stays above "
        "zero in 95 % of redraws of the windows. Bytes: what one text carries between windows.",
    )


def _made_up(result: InfiniteResult, best: float) -> Section:
    own = _own(result.made_up)
    return Section(
        "1 · Texts with words of their own",
        [
            f"Every text uses {result.own} of {result.vocab_size} words, with equal chances, so "
            "all that earlier windows can tell is which. Knowing them gives "
            f"{math.log(result.own):.2f} nats per token; the best that a window of "
            f"{result.window} tokens allows by itself is {best:.2f}. With ∞-former's "
            f"signal the loss is {said(own)}.",
            _claims(
                result.made_up,
                "What the state saves on made-up texts",
                _beyond(result, best),
            ),
            _table(result.made_up, "Made-up texts"),
        ],
    )


def _along_a_window(result: InfiniteResult, best: list[float]) -> Figure:
    positions = list(range(2, result.window + 1))
    columns, of = ("position", "loss"), ("past", "seed")
    fits = result.made_up.fits("signal")
    curves = [
        banded(label, positions, np.array([fit.losses[past] for fit in fits]), columns, of)
        for past, label in PASTS.items()
    ]
    _, rows = banded(BOUND, positions, np.array([best]), columns, of)
    bound: Banded = Series(BOUND, positions, best), [{**row, "seed": None} for row in rows]
    return curves_figure(
        "Loss along a window",
        [*curves, bound],
        ("position in the window", LOSS),
        "∞-former's signal, trained alone on a frozen model. Line: mean over seeds; band: lowest "
        "to highest seed.",
        references=[Reference(math.log(result.own), "the words are known")],
    )


def _topics(result: InfiniteResult) -> Section:
    return Section(
        "2 · Help topics",
        [
            f"The small model of the study documents, windows of {result.topic_window} tokens; "
            "the memory learns on half of the topics that the model never saw, and "
            f"{result.topics.fits('signal')[0].windows} windows of the other half are "
            "read.",
            _claims(result.topics, "What the state saves on topics"),
            _table(result.topics, "Topics"),
        ],
    )
