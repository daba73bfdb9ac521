"""What the page of the study `books` leads with: does memory help, and is it the memory?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mnemoscope.core.statistics import RESAMPLES as DRAWS
from mnemoscope.core.statistics import Estimate
from mnemoscope.plots.figure import Reference, Series, bars
from mnemoscope.report.document import Figure
from mnemoscope.studies.books.losses import LEAST, Losses
from mnemoscope.studies.findings import listed


def saved(losses: Losses) -> dict[str, Estimate]:
    """Bits per byte that memories save against none; empty where that cannot be told."""
    if "none" not in losses.ranked:
        return {}
    models = [model for model in losses.remembering if model in losses.ranked]
    return {model: losses.gain(model, losses.all) for model in models}


def sentences(losses: Losses, gains: dict[str, Estimate]) -> list[str]:
    """Who saves bits, whether its own state does it, and who has not learnt enough to be ranked."""
    unranked = [losses.labels[model] for model in losses.models if model not in losses.ranked]
    failed = f"did not beat counted pairs of {losses.unit} in every seed"
    if gains:
        best = max(gains, key=lambda model: (gains[model].low >= LEAST, gains[model].mean))
        told = [_saves(losses, gains, best), _uses(losses, best)]
        return [*told, f"Not ranked: {listed(unranked)} {failed}."] if unranked else told
    if "none" in losses.models and losses.remembering:
        return [f"Whether memory helps cannot be told: {listed(unranked)} {failed}."]
    missing = "with a memory" if "none" in losses.models else "without memory"
    return [f"Whether memory helps cannot be told: no model {missing} came to its end."]


def _saves(losses: Losses, gains: dict[str, Estimate], best: str) -> str:
    label, gain = losses.labels[best], shown(gains[best])
    sure = [losses.labels[m] for m, one in gains.items() if one.low >= LEAST and m != best]
    if gains[best].low < LEAST:
        return (
            "No memory surely lowers the loss on unseen books: the most is saved by "
            f"{label}, {gain} bits per byte against no memory."
        )
    others = f"less, but surely too, {listed(sure)}" if sure else "no other memory surely does"
    rest = f"; {others}" if len(gains) > 1 else ""
    return f"On books it has never seen {label} saves {gain} bits per byte against no memory{rest}."


def _uses(losses: Losses, model: str) -> str:
    """Whether a model uses what its state holds of this passage, and anybody what is older."""
    cost = losses.cost(model, "shuffled")
    used = "so it uses what it has read" if cost.low >= LEAST else "so that may not be its memory"
    older = [one for one in losses.ranked if losses.has(one, "older shuffled")]
    users = [losses.labels[one] for one in older if all(losses.uses_older(one))]
    rest = "; no memory was shown to use what is older than its cache" if older else ""
    if users:
        rest = f"; what is older than the cache is used by {listed(users)}"
    return (
        f"With the state of another passage {losses.labels[model]} needs {shown(cost)} bits per "
        f"byte more, {used}{rest}."
    )


def shown(one: Estimate, digits: int = 3) -> str:
    """An estimate with its interval, for a sentence."""
    mean, low, high = (f"{value:.{digits}f}" for value in (one.mean, one.low, one.high))
    return f"{mean} (95 %: {low} to {high})"


def estimated(
    name: str, x: Sequence[Any], estimates: Sequence[Estimate], style: int | None = None
) -> Series:
    """Estimates with their intervals, as a curve or as bars."""
    mean, low, high = zip(*((one.mean, one.low, one.high) for one in estimates), strict=True)
    return Series(name, x, mean, low, high, style)


def saved_figure(losses: Losses, gains: dict[str, Estimate]) -> Figure:
    """What every memory saves over the whole reading."""
    labels = [losses.labels[model] for model in gains]
    series = estimated("bits per byte saved", labels, list(gains.values()))
    return Figure(
        "Bits per byte saved by each memory",
        bars([series], "", "bits per byte saved", references=[Reference(0, "no memory")]),
        "Against no memory, on the same text of books that were held out. Line: 95 % of "
        f"{DRAWS} bootstrap draws of seeds and passages.",
        [
            {"model": label, **gain.cells("bits per byte saved")}
            for label, gain in zip(labels, gains.values(), strict=True)
        ],
    )
