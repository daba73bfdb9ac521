"""The page of the study `retention`: every figure and every sentence is computed from its result.

It can be made of a result that is not whole yet; then it says what is missing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mnemoscope.lenses.retention.episodes import Along
from mnemoscope.plots.figure import Reference, Region, Series, lines
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.retention.controls import by_family, cost, limits, order, rates
from mnemoscope.studies.retention.result import (
    Examined,
    Memory,
    Point,
    RetentionResult,
    front,
)
from mnemoscope.studies.sentences import SIGNS, band, bands_of, ranked

if TYPE_CHECKING:
    import plotly.graph_objects as go

FRONT = 6  # the style of the front in all panels
COLUMNS = ["model", "size", "parameters", "bytes", "bits", "bits/byte", "bits/MFLOP"]
COLUMNS += ["half-life", "horizon"]


def page(result: RetentionResult) -> list[Section]:
    """Build the sections of the page."""
    begun = [] if len(result.trials) >= result.planned else [_unfinished(result)]
    if not result.known:
        return begun
    parts = (_by_age, _by_bytes, _by_load, cost, order, rates, limits)
    return [*begun, *(part(result) for part in parts)]


def _unfinished(result: RetentionResult) -> Section:
    some = [memory.label for memory in result.memories if memory not in result.known]
    missing = f" Nothing is known yet of {', '.join(some)}." if some else ""
    seeds = [len(result.chosen(memory, memory.middle)) for memory in result.known]
    fewest = ""
    if seeds:
        many = f"{min(seeds)} to {max(seeds)}" if min(seeds) < max(seeds) else str(seeds[0])
        fewest = f" Seeds behind every curve: {many}."
    return Section(
        "Not finished",
        [
            f"{len(result.trials)} of {result.planned} trainings are done; what follows is the "
            f"best so far, with learning rates that may still change.{fewest}{missing} Reload this "
            "page to see more; the command below goes on with a study that was stopped."
        ],
    )


def _curves(result: RetentionResult, along: Along, title: str, **options: Any) -> go.Figure:
    x = result.x(along)

    def draw(memories: list[Memory]) -> go.Figure:
        series = [
            band(memory.label, x, result.bits(memory, along), style)
            for style, memory in enumerate(memories)
        ]
        return lines(series, title, "bits recalled", **options)

    return by_family(result, draw)


def _curve_rows(result: RetentionResult, along: Along) -> list[dict[str, Cell]]:
    return [
        {
            "model": memory.label,
            "size": one.size,
            "lr": one.lr,
            "seed": one.seed,
            along: x,
            "bits": curve.bits[at],
            "blanked": curve.blanked[at],
            "shuffled": curve.shuffled[at],
            "bytes": curve.bytes[at],
        }
        for memory in result.known
        for size in memory.sizes
        for one in result.chosen(memory, size)
        if isinstance(one.found, Examined)
        for curve in [one.found.curves[along]]
        for at, x in enumerate(curve.x)
    ]


def _by_age(result: RetentionResult) -> Section:
    ages = result.x("age")
    most = math.log2(result.values)
    inside = max(age for age in ages if age < result.length)
    said = [SIGNS]
    for age in dict.fromkeys((inside, ages[-1])):
        at = ages.index(age)
        values = {memory.label: result.bits(memory, "age")[:, at] for memory in result.known}
        where = "the oldest age seen in training" if age == inside else "beyond all training"
        said.append(f"Bits recalled at age {age}, {where}: {ranked(values)}.")
    figure = _curves(
        result,
        "age",
        "age (tokens since the write)",
        region=Region(ages[0], inside, "ages seen in training"),
        references=[Reference(most, "all there was")],
        log_x=True,
        y_range=(0, 1.06 * most),
    )
    return Section(
        "What is left, by age",
        [
            *said,
            Figure(
                "Recall against age",
                figure,
                f"One of {result.age_pairs} values is asked for once, so many tokens after it "
                f"was stored: bits recalled of {most:g}, in the middle size of each memory. Line: "
                "mean of the seeds, band: lowest to highest; grey: all others; shaded: ages seen "
                "in training; dashed: all there was.",
                _curve_rows(result, "age"),
            ),
        ],
    )


def _by_bytes(result: RetentionResult) -> Section:
    points = result.points
    best = front(points, math.log2(result.values) / 20)
    most = result.pairs * math.log2(result.values)
    edge = Series(
        "Pareto front",
        [one.bytes for one in best],
        [one.bits.mean() for one in best],
        style=FRONT,
    )
    ends = [math.log10(end(one.bytes for one in points)) for end in (min, max)]
    reach = [ends[0] - 0.15, ends[1] + 0.15]

    def draw(memories: list[Memory]) -> go.Figure:
        series = []
        for style, memory in enumerate(memories):
            own = [one for one in points if one.memory == memory]
            carried = [one.bytes for one in own]
            series.append(bands_of(memory.label, carried, (one.bits for one in own), style))
        figure = lines([*series, edge], "bytes carried", "bits recalled", y_range=(0, 1.06 * most))
        figure.data[-1].line.shape = "hv"  # with more bytes at hand one can still carry fewer
        return figure.update_layout(
            xaxis={"type": "log", "dtick": 1, "range": reach}, hovermode="closest"
        )

    listed = "; ".join(
        f"{_named(one)} ({one.bits.mean():.1f} bits in {one.bytes:.0f} bytes)" for one in best
    )
    densest = max(points, key=lambda one: one.bits.mean() / one.bytes)
    return Section(
        "Bits for bytes",
        [
            f"No model has more bits in as few bytes than these, from small to large: "
            f"{listed or 'none'}.",
            f"Most bits per byte: {_named(densest)}, with "
            f"{densest.bits.mean() / densest.bytes:.3f} of the 8 bits that a byte can hold.",
            Figure(
                "Recall against bytes",
                by_family(result, draw),
                f"Most bits recalled of one episode, of at most {most:g}, against the bytes that "
                "one stream carries while the questions come. A point is a size; band: lowest to "
                "highest seed; grey: all others.",
                [
                    {
                        "model": one.memory.label,
                        "size": one.size.value,
                        "bytes": one.bytes,
                        "seed": seed,
                        "bits": float(bits),
                        "on the front": str(one in best).lower(),
                    }
                    for one in points
                    for seed, bits in enumerate(one.bits)
                ],
            ),
            Table(
                "All sizes",
                COLUMNS,
                [_facts(result, one) for one in points],
                "Size: tokens cached (mem_len) of models that have a cache, width of the others. "
                "Means over seeds; half-life (age at which half of the most bits is left) "
                "and horizon (age from which on less than a twentieth of an answer is left): "
                "lowest to highest seed, – where there was nothing to lose.",
            ),
        ],
    )


def _named(one: Point) -> str:
    return f"{one.memory.label} at {one.memory.sized_by} {one.size.value}"


def _facts(result: RetentionResult, one: Point) -> list[Cell]:
    here = result.examined(one.memory, one.size)
    bits = float(one.bits.mean())
    spent = float(np.mean([found.flops for found in here]))
    oldest = result.x("age")[-1]
    return [
        one.memory.label,
        one.size.value,
        one.size.parameters,
        round(one.bytes),
        round(bits, 2),
        round(bits / one.bytes, 4),
        round(1e6 * bits / spent, 2),
        age_range([found.half_life for found in here], oldest),
        age_range([found.horizon for found in here], oldest),
    ]


def age_range(ages: Sequence[float | None], oldest: int) -> str:
    """Lowest to highest seed; None lies beyond the oldest age, 0 had nothing to lose."""
    ends = [math.inf if age is None else age for age in ages]
    words = [
        "–" if end == 0 else f">\u00a0{oldest}" if math.isinf(end) else f"{end:.0f}"
        for end in (min(ends), max(ends))
    ]
    return words[0] if words[0] == words[1] else f"{words[0]} to {words[1]}"


def _by_load(result: RetentionResult) -> Section:
    items, twice = result.x("items"), result.x("overwrites")
    most = math.log2(result.values)
    last = {memory.label: result.bits(memory, "items")[:, -1] for memory in result.known}
    overwritten = {memory.label: result.bits(memory, "overwrites") for memory in result.known}
    lost = {name: float((bits[:, 0] - bits[:, -1]).mean()) for name, bits in overwritten.items()}
    worst = max(lost, key=lambda name: lost[name])
    return Section(
        "More to keep, and values that change",
        [
            f"With {items[-1]} items stored, each asked once: {ranked(last)}, of "
            f"{items[-1] * most:g} bits.",
            f"{twice[-1]} of {result.age_pairs} items written twice cost "
            f"{worst} most, {lost[worst]:.1f} bits.",
            Figure(
                "Recall against items",
                _curves(
                    result, "items", "items stored",
                    log_x=True, y_range=(0, 1.06 * items[-1] * most),
                ),
                "Bits recalled of one episode in which every item is asked for once. Lines, bands "
                "and sizes as above.",
                _curve_rows(result, "items"),
            ),
            Figure(
                "Recall against overwrites",
                _curves(
                    result, "overwrites", "items overwritten",
                    references=[Reference(result.age_pairs * most, "all there was")],
                    y_range=(0, 1.06 * result.age_pairs * most),
                ),
                f"The same with {result.age_pairs} items, some of them written twice; the later "
                "value counts. Dashed: all there was.",
                _curve_rows(result, "overwrites"),
            ),
        ],
    )  # fmt: skip
