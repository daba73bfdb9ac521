"""The page of the study `past`: every sentence computed from the result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mnemoscope.plots.figure import Reference, Series, lines
from mnemoscope.report.document import Figure, Section, Table
from mnemoscope.studies.documents.sentences import LOSS, every, said
from mnemoscope.studies.infinite.study import KINDS

Result = dict[str, Any]
PASTS = {"own": "its own past", "none": "no past", "other": "another text's past"}


def tell(result: Result) -> Sequence[Section]:
    """Build the sections of the page."""
    return [_made_up(result), _topics(result)]


def _gains(result: Result, name: str, over: str) -> np.ndarray[Any, Any]:
    """Gain with the ends of its interval, one row a seed: (S, 3)."""
    return np.array([fit[f"over {over}"] for fit in result["fits"][name]], dtype=np.float64)


def _verdicts(result: Result, text: str) -> list[str]:
    """What each memory gains, and whether that is surely above zero."""
    words = []
    for kind, label in KINDS.items():
        none, other = (_gains(result, f"{text} {kind}", over) for over in ("none", "another"))
        words.append(
            f"{label}: the own past saves {said(none[:, 0], '+.3f')} nats per token over none, "
            f"surely {every(none[:, 1] > 0)}, and {said(other[:, 0], '+.3f')} over another "
            f"text's, surely {every(other[:, 1] > 0)}."
        )
    return words


def _table(result: Result, text: str, name: str) -> Table:
    rows: list[list[Any]] = []
    for kind, label in KINDS.items():
        fits = result["fits"][f"{text} {kind}"]
        losses = [float(np.mean([fit["losses"][past] for fit in fits])) for past in PASTS]
        gains = [float(_gains(result, f"{text} {kind}", over)[:, 0].mean())
                 for over in ("none", "another")]  # fmt: skip
        rows.append([label, *losses, *gains, fits[0]["bytes"]])
    return Table(
        name,
        ["memory", "own", "none", "another's", "over none", "over another's", "bytes"],
        rows,
        "Loss in nats per token after the own past, none and another text's, the first token of a "
        "window left out, and what the own past saves; means over seeds. Sure is what stays above "
        "zero in 95 % of redraws of the windows. Bytes: what one text carries between windows.",
    )


def _made_up(result: Result) -> Section:
    from mnemoscope.studies.infinite.fits import best_without_past

    name = "made-up signal"
    size = result["window"]
    places = list(range(2, size + 1))
    best = best_without_past(result["words"], result["own"], size)[1:]
    series, rows = [], []
    for past, label in PASTS.items():
        values = np.array([fit["places"][past] for fit in result["fits"][name]])
        series.append(Series(label, places, values.mean(0), values.min(0), values.max(0)))
        rows += [
            {"past": label, "seed": seed, "place": place, "loss": loss}
            for seed, row in enumerate(values.tolist())
            for place, loss in zip(places, row, strict=True)
        ]
    series.append(Series("best that no past allows", places, best))
    rows += [
        {"past": "best that no past allows", "seed": None, "place": place, "loss": loss}
        for place, loss in zip(places, best, strict=True)
    ]
    own = np.array([fit["losses"]["own"] for fit in result["fits"][name]])
    beats = own < np.mean(best)
    return Section(
        "1 · Texts with words of their own",
        [
            f"Every text uses {result['own']} of {result['words']} words, with equal chances, so "
            f"all that the past can tell is which. Knowing them gives "
            f"{math.log(result['own']):.2f} nats per token; the best that a window of {size} "
            f"tokens allows by itself is {np.mean(best):.2f}. With ∞-former's signal the loss is "
            f"{said(own)}: better than anything without a past can be {every(beats)}.",
            *_verdicts(result, "made-up"),
            Figure(
                "Loss along a window",
                lines(
                    series,
                    "place in the window",
                    LOSS,
                    references=[Reference(math.log(result["own"]), "the words are known")],
                ),
                "∞-former's signal, trained alone on a frozen model. Line: mean over seeds; band: "
                "lowest to highest seed.",
                rows,
            ),
            _table(result, "made-up", "Made-up texts"),
        ],
    )


def _topics(result: Result) -> Section:
    fits = result["fits"]["topics signal"]
    gains = _gains(result, "topics signal", "another")
    sure = gains[:, 1] > 0
    found = f"That the signal holds something of the text it read is sure {every(sure)}."
    if not sure.any():
        found = "No use of the signal could be shown here."
    return Section(
        "2 · Help topics",
        [
            f"The small model of the study documents, windows of {result['topic_window']} tokens; "
            "the memory learns on half of the topics that the model never saw, and "
            f"{fits[0]['windows']} windows of the other half are read. {found}",
            *_verdicts(result, "topics"),
            _table(result, "topics", "Topics"),
        ],
    )
