"""The page of the study `books`: every figure and every sentence is computed from its result."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from mnemoscope.plots.figure import Reference, Series, bars, lines
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.books.result import DRAWS, Estimate, Heard
from mnemoscope.studies.books.study import LABELS
from mnemoscope.studies.sentences import banded

_BAND = "In brackets: 95 % of bootstrap draws of seeds and passages."
# What was done to the state, and what a bar then shows.
CONTROLS = {
    "blanked": "whole state blanked",
    "shuffled": "whole state another passage's",
    "older blanked": "older than the cache: blanked",
    "older shuffled": "older than the cache: another passage's",
}

# Whether what is older than the cache is missed when blank, and whether it must be this passage's.
_OLDER = {
    (True, True): "What it holds of this passage is used",
    (True, False): "It is missed when blank, but any passage's does as well: it holds nothing "
    "particular, only something that is expected to be there",
    (False, True): "Another passage's misleads, but a blank one costs nothing, so nothing is "
    "gained from it",
    (False, False): "No use of it could be shown",
}


def tell(result: dict[str, Any]) -> Sequence[Section]:
    """Build the sections of the page."""
    heard = Heard(result)
    return [_loss(heard), _reading(heard), _attribution(heard), _sizes(heard)]


def ranking(heard: Heard) -> str:
    """Order the models; ``<`` where all seeds agree, ``≈`` where they do not."""
    found = {model: heard.rate(model) for model in heard.models}
    order = sorted(found, key=lambda model: float(found[model].mean()))
    words = [f"{LABELS[order[0]]} ({found[order[0]].mean():.3f})"]
    for left, right in pairwise(order):
        sign = "<" if found[left].max() < found[right].min() else "≈"
        words.append(f"{sign} {LABELS[right]} ({found[right].mean():.3f})")
    return " ".join(words)


def _parted(estimates: dict[str, Estimate]) -> tuple[str, str, str]:
    """Lists of the models surely above zero, surely below, and those that are neither."""
    said = {model: f"{LABELS[model]} {one}" for model, one in estimates.items()}
    above = [said[model] for model, one in estimates.items() if one.low > 0]
    below = [said[model] for model, one in estimates.items() if one.high < 0]
    unclear = [text for text in said.values() if text not in above + below]
    return ", ".join(above), ", ".join(below), ", ".join(unclear)


def _loss(heard: Heard) -> Section:
    result = heard.result
    names = list(dict.fromkeys(heard.books))
    words = [
        f"Trained on {result['trained_bytes']:,} bytes (the training text has "
        f"{result['training_text']:,}), then {len(heard.books)} passages of {len(names)} books "
        f"that were held out, {int(heard.bytes.sum()):,} bytes in all. Bits per byte, lower is "
        f"better: {ranking(heard)}. Here < means that every seed of the left one beats every seed "
        "of the right one, ≈ that they overlap.",
        *_diverged(heard),
    ]
    if "none" in heard.models and heard.remembering:
        words.append(_verdict(heard))
    seeds = max(len(rows) for rows in heard.trials.values())
    rates = {model: heard.rate(model) for model in heard.models}
    means = [rates[model].mean() for model in heard.models]
    lows = [rates[model].min() for model in heard.models]
    highs = [rates[model].max() for model in heard.models]
    labels = [LABELS[model] for model in heard.models]
    figure = Figure(
        "Bits per byte by model",
        bars([Series("bits per byte", labels, means, lows, highs)], "model", "bits per byte"),
        f"On books that were held out, with the state carried. Bar: mean of {seeds} seeds; line: "
        "lowest to highest seed.",
        [
            {"model": LABELS[model], "seed": row["seed"], "bits per byte": value}
            | {"perplexity per byte": 2**value}
            for model in heard.models
            for row, value in zip(heard.trials[model], rates[model].tolist(), strict=True)
        ],
    )
    table = Table(
        "Bits per byte by book",
        ["model", *names, "all", "perplexity per byte"],
        [
            [
                LABELS[model],
                *(round(float(heard.rate(model, book=name).mean()), 4) for name in names),
                round(float(rates[model].mean()), 4),
                round(float((2 ** rates[model]).mean()), 4),
            ]
            for model in heard.models
        ],
        "Mean of the seeds; perplexity is 2 to the power of bits per byte.",
    )
    return Section("What was seen", [*words, figure, table])


def _diverged(heard: Heard) -> list[str]:
    lost = [row for row in heard.result["trials"] if "diverged" in row]
    if not lost:
        return []
    names = ", ".join(f"{LABELS[row['model']]} (seed {row['seed']})" for row in lost)
    return [f"Trainings that diverged and are left out of all that follows: {names}."]


def _verdict(heard: Heard) -> str:
    gains = {model: heard.gain(model, heard.all) for model in heard.remembering}
    helped, hurt, unclear = _parted(gains)
    parts = []
    if helped:
        parts.append(f"Bits per byte saved against no memory: {helped}.")
    if hurt:
        parts.append(f"Worse than no memory, although trained with one: {hurt}.")
    if unclear:
        parts.append(f"Not to be told from no memory: {unclear}.")
    return " ".join(parts) + f" {_BAND}"


def _reading(heard: Heard) -> Section:
    own: list[Series] = []
    values: list[dict[str, Cell]] = []
    for model in heard.models:
        curve = heard.curve(model)
        one, more = banded(LABELS[model], heard.ends, curve, ("bytes read", "bits per byte"))
        own.append(one)
        values += more
    absolute = Figure(
        "Loss against bytes read",
        lines(own, "bytes read, up to", "bits per byte", log_x=True),
        "Each point is a stretch of the reading as long as all before it together. Line: mean of "
        "the seeds; band: lowest to highest seed. How hard the text is differs from stretch to "
        "stretch, so only differences between models tell something.",
        values,
    )
    if "none" not in heard.models or not heard.remembering:
        return Section("As the book goes on", [absolute])
    series: list[Series] = []
    rows: list[dict[str, Cell]] = []
    for place, model in enumerate(heard.models):
        if model == "none":
            continue
        gains = [heard.gain(model, heard.only(k)) for k in range(len(heard.ends))]
        mean, low, high = _columns(gains)
        series.append(Series(LABELS[model], heard.ends, mean, low, high, style=place))
        rows += [
            {"model": LABELS[model], "bytes read": end, **gain.cells("bits per byte saved")}
            for end, gain in zip(heard.ends, gains, strict=True)
        ]
    figure = Figure(
        "Bits saved against bytes read",
        lines(
            series,
            "bytes read, up to",
            "bits per byte saved against no memory",
            log_x=True,
            references=[Reference(0, "no memory")],
        ),
        f"On the same bytes, so that hard and easy stretches cancel. Band: 95 % of {DRAWS} "
        "bootstrap draws of seeds and passages.",
        rows,
    )
    return Section("As the book goes on", [_growth(heard), absolute, figure])


def _columns(estimates: Sequence[Estimate]) -> tuple[list[float], list[float], list[float]]:
    return (
        [one.mean for one in estimates],
        [one.low for one in estimates],
        [one.high for one in estimates],
    )


def _growth(heard: Heard) -> str:
    """Say for each model whether it gains more late in the reading than once it was warm."""
    early, late = int(np.argmax(heard.warm)), len(heard.ends) - 1
    if early == late:
        return "The reading ends where the warm-up does: nothing can be said of its course."
    pair = heard.only(early), heard.only(late)
    growths = {model: heard.growth(model, *pair) for model in heard.remembering}
    grows, falls, even = _parted(growths)
    words = []
    if grows:
        words.append(f"saves more as the book goes on: {grows}")
    if falls:
        words.append(f"saves less as the book goes on: {falls}")
    if even:
        words.append(f"neither more nor less that could be told: {even}")
    return (
        f"The last stretch ({heard.ends[-2]:,} to {heard.ends[-1]:,} bytes read) against that "
        f"which ends at {heard.ends[early]:,}, in bits per byte saved against no memory: "
        f"{'; '.join(words)}. {_BAND}"
    )


def _attribution(heard: Heard) -> Section:
    models = heard.remembering
    if not models:
        return Section("Is it the memory?", ["No model with a memory was trained."])
    series: list[Series] = []
    rows: list[dict[str, Cell]] = []
    for style, (control, name) in enumerate(CONTROLS.items()):
        having = [model for model in models if heard.has(model, control)]
        if not having:
            continue
        costs = [heard.cost(model, control) for model in having]
        mean, low, high = _columns(costs)
        labels = [LABELS[model] for model in having]
        series.append(Series(name, labels, mean, low, high, style=style))
        rows += [
            {"model": LABELS[model], "control": control, **cost.cells("extra bits per byte")}
            for model, cost in zip(having, costs, strict=True)
        ]
    figure = Figure(
        "What the state is worth",
        bars(series, "model", "extra bits per byte"),
        "What every byte costs more when the state before a segment is replaced, on one segment in "
        f"{heard.result['probe']} after {heard.warm_from:,} bytes read, the same for all. "
        f"Bar: mean of the seeds; line: 95 % of {DRAWS} bootstrap draws of seeds and passages.",
        rows,
    )
    return Section("Is it the memory?", [*_blame(heard, models), figure])


def _blame(heard: Heard, models: Sequence[str]) -> list[str]:
    whole = ", ".join(f"{LABELS[m]} {heard.cost(m, 'blanked')}" for m in models)
    swapped = ", ".join(f"{LABELS[m]} {heard.cost(m, 'shuffled')}" for m in models)
    words = [
        f"Without the state before a segment, its bytes cost more by: {whole}. With the "
        f"state of another passage: {swapped}. The text just before the segment, which any cache "
        f"holds, is part of this. {_BAND}"
    ]
    apart = {m: heard.cost(m, "blanked", against="shuffled") for m in models}
    worse = [LABELS[m] for m, one in apart.items() if one.low > 0]
    if worse:
        words.append(
            f"For {', '.join(worse)} an empty state is worse than a wrong one: a model that was "
            "trained with a memory has hardly learnt to read without one, so blanking it "
            "overstates what the memory is worth."
        )
    said: dict[tuple[bool, bool], list[str]] = {kind: [] for kind in _OLDER}
    for model in models:
        if not heard.has(model, "older shuffled"):
            continue
        blank, other = heard.cost(model, "older blanked"), heard.cost(model, "older shuffled")
        said[blank.low > 0, other.low > 0].append(f"{LABELS[model]} {other}, blanked {blank}")
    if not any(said.values()):
        return words
    parts = ["The cache left alone, and what is older exchanged between passages or blanked."]
    parts += [f"{_OLDER[kind]}: {'; '.join(texts)}." for kind, texts in said.items() if texts]
    return [*words, " ".join(parts)]


def _sizes(heard: Heard) -> Section:
    facts = heard.result["models"]
    sizes = [facts[model]["parameters"] for model in heard.models]
    rows = []
    for model in heard.models:
        options, trials = facts[model]["options"], heard.trials[model]
        rows.append(
            [
                LABELS[model],
                facts[model]["parameters"],
                trials[0]["state_bytes"],
                options["mem_len"],
                options.get("compressed_len") or options.get("basis") or 0,
                round(options["mlp_ratio"], 3),
                round(float(np.mean([row["seconds"] for row in trials])), 1),
            ]
        )
    carried = [row[2] for row, model in zip(rows, heard.models, strict=True) if model != "none"]
    words = f"All models have between {min(sizes):,} and {max(sizes):,} parameters"
    if carried:
        words += f", and those with a memory carry between {min(carried):,} and {max(carried):,} "
        words += "bytes, measured at the end of the reading"
    return Section(
        "What each carries",
        [
            f"{words}. All have the same width; a memory that brings weights of its own pays for "
            "them with a thinner feed-forward layer.",
            Table(
                "Size of model and state",
                [
                    "model",
                    "parameters",
                    "state bytes",
                    "mem_len",
                    "older",
                    "mlp_ratio",
                    "training s",
                ],
                rows,
                "State of one passage; cached and older: vectors a layer keeps of the last tokens "
                "and of what is older; hidden: width of the feed-forward layer, in widths. "
                "Training time of one model on one thread.",
            ),
        ],
    )
