"""The page of the study `books`: every figure and every sentence is computed from its result."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.core.statistics import RESAMPLES as DRAWS
from mnemoscope.core.statistics import Estimate
from mnemoscope.plots.figure import Reference, Series, bars, lines
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.books import shares
from mnemoscope.studies.books.finding import estimated, saved, saved_figure, sentences
from mnemoscope.studies.books.losses import LEAST, Losses
from mnemoscope.studies.books.result import BooksResult
from mnemoscope.studies.books.settings import carried, rates_tried
from mnemoscope.studies.findings import lead
from mnemoscope.studies.sentences import all_banded, bands_of, gated, over_seeds, ranked, signs
from mnemoscope.studies.study import Diverged

_BAND = (
    "In brackets: 95 % of bootstrap draws of seeds and passages; a difference is said only where "
    f"all of them are beyond {LEAST:g}."
)
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


def page(result: BooksResult) -> list[Section]:
    """Build the sections of the page."""
    losses = Losses(result)
    if not losses.models:
        return [Section("What was found", ["Nothing: all trainings diverged.", *_diverged(result)])]
    by_model, more, told = _by_model(losses), list[Section](), list[str]()
    gains, judged = saved(losses), True
    if shares.asked(losses):
        told, judged = shares.sentences(losses), not shares.nothing_to_share(losses)
        more = [shares.section(losses)] if judged else []
    if judged and shares.asked(losses) and shares.told(losses):
        figure = shares.share_figure(losses)
    else:
        figure = saved_figure(losses, gains) if judged and gains else by_model
    return [
        lead(told or sentences(losses, gains), figure),
        *more,
        _loss(losses, [] if figure is by_model else [by_model], judged),
        _reading(losses, judged),
        _attribution(losses, judged),
        *rates_tried(losses),
        carried(losses),
    ]


def _parted(estimates: dict[str, Estimate], *words: str) -> list[str]:
    """Who is surely above what counts, who surely below, and who is neither, behind their words."""
    said = {label: f"{label} {one}" for label, one in estimates.items()}
    above = [said[label] for label, one in estimates.items() if one.low >= LEAST]
    below = [said[label] for label, one in estimates.items() if one.high <= -LEAST]
    unclear = [text for text in said.values() if text not in above + below]
    groups = zip(words, (above, below, unclear), strict=True)
    return [f"{word}: {', '.join(group)}" for word, group in groups if group]


def _rates(losses: Losses) -> dict[str, Floats]:
    """Bits per byte of every seed, by label."""
    return {label: losses.rate(model) for model, label in losses.labels.items()}


def _loss(losses: Losses, figures: Sequence[Figure], judged: bool) -> Section:
    result, rates = losses.result, _rates(losses)
    names = list(dict.fromkeys(losses.books))
    among = {losses.labels[model]: losses.rate(model) for model in losses.ranked}
    order = ranked(among, LEAST, 3, lowest_first=True)
    gates = {losses.labels[model]: gate for model, gate in losses.gates.items()}
    words = [
        f"Trained on {result.trained_bytes:,} bytes (the training text has "
        f"{result.training_text:,}), then {len(losses.books)} passages of {len(names)} books "
        f"that were held out, {int(losses.bytes.sum()):,} bytes in all. Bits per byte, lower is "
        f"better: {order}. {signs(LEAST, 'bits', lowest_first=True)}",
        *([gated(gates)[1]] if gates else []),
        *_diverged(result),
    ]
    if "none" in losses.models and losses.remembering and judged:
        words.append(_verdict(losses))
    table = Table(
        "Bits per byte by book",
        ["model", *names, "all", "perplexity per byte"],
        [
            [
                label,
                *(round(float(losses.rate(model, book=name).mean()), 4) for name in names),
                round(float(rates[label].mean()), 4),
                round(float((2 ** rates[label]).mean()), 4),
            ]
            for model, label in losses.labels.items()
        ],
        "Mean of the seeds; perplexity is 2 to the power of bits per byte.",
    )
    return Section("What was seen", [*words, *figures, table, *_per_word(losses, names)])


def _per_word(losses: Losses, names: Sequence[str]) -> list[Table]:
    """Perplexities that other work can be held against; older results have counted no words."""
    rows: list[list[Cell]] = []
    for model, label in losses.labels.items():
        each = [losses.word_perplexity(model, book) for book in (*names, None)]
        if any(one is None for one in each):
            return []
        nats = round(float(losses.nats_per_token(model).mean()), 4)
        means = (round(float(one.mean()), 2) for one in each if one is not None)
        rows.append([label, nats, *means])
    ends = " and ends of lines" if losses.result.line_ends else ""
    words = sum(one.words or 0 for one in losses.result.passages)
    return [
        Table(
            "Perplexity per word",
            ["model", "nats per token", *names, "all"],
            rows,
            f"Mean of the seeds. e to the power of all nats over all {words:,} words{ends} of what "
            "was read, so that models with other tokens can be compared. Tokens are "
            f"{losses.result.unit}, {losses.result.vocab:,} different ones, of "
            f"{losses.bytes.sum() / losses.tokens.sum():.2f} bytes on average.",
        )
    ]


def _by_model(losses: Losses) -> Figure:
    rates = _rates(losses)
    seeds = max(len(one) for one in rates.values())
    return Figure(
        "Bits per byte by model",
        bars([bands_of("bits per byte", list(rates), rates.values())], "model", "bits per byte"),
        "On books that were held out, with the state carried. "
        + over_seeds(seeds, drawn="Bar", range_as="line"),
        [
            {"model": label, "seed": seed, "bits per byte": value, "perplexity per byte": 2**value}
            for model, label in losses.labels.items()
            for seed, value in zip(losses.trials[model], rates[label].tolist(), strict=True)
        ],
    )


def _diverged(result: BooksResult) -> list[str]:
    lost = [one for one in result.trials if isinstance(one.outcome, Diverged)]
    if not lost:
        return []
    names = ", ".join(f"{result.models[one.model].label} (seed {one.seed})" for one in lost)
    return [f"Trainings that diverged and are left out of all that follows: {names}."]


def _verdict(losses: Losses) -> str:
    gains = {losses.labels[model]: losses.gain(model, losses.all) for model in losses.remembering}
    parts = _parted(
        gains,
        "Bits per byte saved against no memory",
        "Worse than no memory, although trained with one",
        "Not to be told from no memory",
    )
    return " ".join([*(f"{part}." for part in parts), _BAND])


def _reading(losses: Losses, judged: bool) -> Section:
    curves = {label: losses.curve(model) for model, label in losses.labels.items()}
    own, values = all_banded(losses.ends, curves, (f"{losses.unit} read", "bits per byte"))
    absolute = Figure(
        f"Loss against {losses.unit} read",
        lines(own, f"{losses.unit} read, up to", "bits per byte", log_x=True),
        "Each point is a stretch of the reading as long as all before it together. Line: mean of "
        "the seeds; band: lowest to highest seed. How hard the text is differs from stretch to "
        "stretch, so only differences between models tell something.",
        values,
    )
    if "none" not in losses.models or not losses.carrying:
        return Section("As more is read", [absolute])
    series: list[Series] = []
    rows: list[dict[str, Cell]] = []
    for style, (model, label) in enumerate(losses.labels.items()):
        if model == "none":
            continue
        gains = [losses.gain(model, losses.only(k)) for k in range(len(losses.ends))]
        series.append(estimated(label, losses.ends, gains, style))
        rows += [
            {"model": label, f"{losses.unit} read": end, **gain.cells("bits per byte saved")}
            for end, gain in zip(losses.ends, gains, strict=True)
        ]
    figure = Figure(
        f"Bits saved against {losses.unit} read",
        lines(
            series,
            f"{losses.unit} read, up to",
            "bits per byte saved against no memory",
            log_x=True,
            references=[Reference(0, "no memory")],
        ),
        f"On the same text, so that hard and easy stretches cancel. Band: 95 % of {DRAWS} "
        "bootstrap draws of seeds and passages.",
        rows,
    )
    return Section("As more is read", [*([_growth(losses)] if judged else []), absolute, figure])


def _growth(losses: Losses) -> str:
    """Say for each model whether it gains more late in the reading than once it was warm."""
    early, late = int(np.argmax(losses.warm)), len(losses.ends) - 1
    if early == late:
        return "The reading ends where the warm-up does: nothing can be said of its course."
    pair = losses.only(early), losses.only(late)
    growths = {losses.labels[m]: losses.growth(m, *pair) for m in losses.carrying}
    words = _parted(
        growths,
        "saves more as more is read",
        "saves less as more is read",
        "neither more nor less that could be told",
    )
    return (
        f"The last stretch ({losses.ends[-2]:,} to {losses.ends[-1]:,} {losses.unit} read) against "
        f"that which ends at {losses.ends[early]:,}, in bits per byte saved against no memory: "
        f"{'; '.join(words)}. {_BAND}"
    )


def _attribution(losses: Losses, judged: bool) -> Section:
    models = losses.carrying
    if not models:
        return Section("Is it the memory?", ["No model with a memory was trained."])
    series: list[Series] = []
    rows: list[dict[str, Cell]] = []
    for style, (control, name) in enumerate(CONTROLS.items()):
        having = [model for model in models if losses.has(model, control)]
        if not having:
            continue
        costs = [losses.cost(model, control) for model in having]
        labels = [losses.labels[model] for model in having]
        series.append(estimated(name, labels, costs, style))
        rows += [
            {"model": losses.labels[model], "control": control, **cost.cells("extra bits per byte")}
            for model, cost in zip(having, costs, strict=True)
        ]
    figure = Figure(
        "Loss without the state",
        bars(series, "model", "extra bits per byte"),
        "What every byte costs more when the state before a segment is replaced, on one segment in "
        f"{losses.result.probe} after {losses.warm_from:,} {losses.unit} read, the same for all. "
        f"Bar: mean of the seeds; line: 95 % of {DRAWS} bootstrap draws of seeds and passages.",
        rows,
    )
    return Section("Is it the memory?", [*(_blame(losses, models) if judged else []), figure])


def _blame(losses: Losses, models: Sequence[str]) -> list[str]:
    whole = ", ".join(f"{losses.labels[m]} {losses.cost(m, 'blanked')}" for m in models)
    swapped = ", ".join(f"{losses.labels[m]} {losses.cost(m, 'shuffled')}" for m in models)
    words = [
        f"Without the state before a segment, its {losses.unit} cost more by: {whole}. With the "
        f"state of another passage: {swapped}. The text just before the segment, which any cache "
        f"holds, is part of this. {_BAND}"
    ]
    apart = {m: losses.cost(m, "blanked", against="shuffled") for m in models}
    worse = [losses.labels[m] for m, one in apart.items() if one.low >= LEAST]
    if worse:
        words.append(
            f"For {', '.join(worse)} an empty state is worse than a wrong one: a model that was "
            "trained with a memory has hardly learnt to read without one, so blanking it "
            "overstates what the memory adds."
        )
    said: dict[tuple[bool, bool], list[str]] = {kind: [] for kind in _OLDER}
    for model in models:
        if not losses.has(model, "older shuffled"):
            continue
        blank, other = losses.cost(model, "older blanked"), losses.cost(model, "older shuffled")
        said[losses.uses_older(model)].append(f"{losses.labels[model]} {other}, blanked {blank}")
    if not any(said.values()):
        return words
    parts = ["The cache left alone, and what is older exchanged between passages or blanked."]
    parts += [f"{_OLDER[kind]}: {'; '.join(texts)}." for kind, texts in said.items() if texts]
    return [*words, " ".join(parts)]
