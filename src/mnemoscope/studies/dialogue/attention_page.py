"""The part of the page of `dialogue` on attention: where it fell on the document."""

from __future__ import annotations

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.plots.figure import Reference, Series, bars, lines
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.dialogue.recovered import Recovered
from mnemoscope.studies.dialogue.result import Attended

_MASS = "attention mass"
# Mass that counts as a difference between two memories.
LEAST_MASS = 0.01
# The same memory, plain and sticky.
PAIR = ("infinite_fixed", "infinite_sticky")


def attention_section(found: Recovered) -> list[Section]:
    """Attention over the document by position and by section, of all that attend to tokens."""
    seeds: dict[str, list[Attended]] = {}
    for model in found.labels:
        known = [one.attended for one in found.trials[model] if one.attended is not None]
        if known:
            seeds[model] = known
    if not seeds:
        return []
    parts: list[str | Figure | Table] = [
        "Of all attention behind the tokens of the replies, mean over heads and layers, so much "
        "fell on the document; a compressed vector hands it to its tokens, a signal to those that "
        "stand where its densities lie. Attention is where a model looked, not proof of what it "
        "used: what counts is the loss above.",
        *_stickier(found, seeds),
        _by_position(found, seeds),
        _by_section(found, seeds),
    ]
    rows = next(iter(seeds.values()))[0].about
    if not np.isnan(rows).all():
        parts.append(_about(found, seeds))
    return [Section("Where attention fell on the document", parts)]


def _means(found: list[Attended], what: str) -> Floats:
    """Of every seed the mean over conversations that have it, (S,) or (S, B)."""
    return np.array([np.nanmean(np.array(getattr(one, what)), axis=0) for one in found])


def _spread(name: str, x: list[float] | list[int], values: Floats) -> Series:
    return Series(name, x, values.mean(0).tolist(), values.min(0).tolist(), values.max(0).tolist())


def _by_position(found: Recovered, seeds: dict[str, list[Attended]]) -> Figure:
    count = len(next(iter(seeds.values()))[0].positions[0])
    middles = [round((place + 0.5) / count, 4) for place in range(count)]
    series: list[Series] = []
    rows: list[dict[str, Cell]] = []
    for model, known in seeds.items():
        values = _means(known, "positions")  # (S, B)
        series.append(_spread(found.labels[model], middles, values))
        rows += [
            {"model": found.labels[model], "position": x, _MASS: float(mass)}
            for x, mass in zip(middles, values.mean(0), strict=True)
        ]
    uniform = float(_means(next(iter(seeds.values())), "uniform").mean()) / count
    return Figure(
        "Attention over the document",
        lines(
            series,
            "position in the document (0 = read first)",
            f"{_MASS} per token of a reply",
            references=[Reference(uniform, "the same on every token")],
        ),
        f"On each of {count} equal stretches of the document. Band: lowest to highest seed.",
        rows,
    )


def _by_section(found: Recovered, seeds: dict[str, list[Attended]]) -> Figure:
    series: list[Series] = []
    rows: list[dict[str, Cell]] = []
    for model, known in seeds.items():
        values = _means(known, "sections")
        numbers = [*range(1, values.shape[1] + 1)]
        series.append(_spread(found.labels[model], numbers, values))
        rows += [
            {"model": found.labels[model], "section": number, _MASS: float(mass)}
            for number, mass in zip(numbers, values.mean(0), strict=True)
        ]
    return Figure(
        "Attention by section",
        bars(series, "section of the document", f"{_MASS} per token of a reply"),
        "Sections as they were read. Bar: mean of the seeds; line: lowest to highest.",
        rows,
    )


def _about(found: Recovered, seeds: dict[str, list[Attended]]) -> Figure:
    labels = [found.labels[model] for model in seeds]
    about = [_means(known, "about") for known in seeds.values()]
    chance = float(_means(next(iter(seeds.values())), "by_chance").mean())
    low, high = ([float(f(one)) for one in about] for f in (np.min, np.max))
    means = [float(one.mean()) for one in about]
    return Figure(
        "Attention on the section that is spoken of",
        bars(
            [Series("the section spoken of", labels, means, low, high)],
            "",
            f"{_MASS} per token of a reply",
            references=[Reference(chance, "the same on every token")],
        ),
        "Bar: mean of the seeds; line: lowest to highest.",
        [{"model": label, _MASS: mean} for label, mean in zip(labels, means, strict=True)],
    )


def _stickier(found: Recovered, seeds: dict[str, list[Attended]]) -> list[str]:
    """What sticky sampling changes, beside the same memory without it."""
    if not set(PAIR) <= set(seeds):
        return []
    plain, sticky = (
        np.array([np.sum(one.positions) / len(one.positions) for one in seeds[name]])
        for name in PAIR
    )
    apart = np.subtract.outer(sticky, plain)
    said = "no clear difference"
    if (apart >= LEAST_MASS).all() or (apart <= -LEAST_MASS).all():
        said = "more" if apart.mean() > 0 else "less"
    return [
        f"{found.labels[PAIR[1]]} has {sticky.mean():.3f} of its attention on the document, "
        f"{found.labels[PAIR[0]]} {plain.mean():.3f}: {said} (a difference is seen when every seed "
        f"of the one differs from every seed of the other by {LEAST_MASS:g})."
    ]
