"""The page of the study `retention`: every figure and every sentence is computed from its result.

It can be made of a result that is not whole yet; then it says what is missing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mnemoscope.lenses.retention.episodes import Along
from mnemoscope.plots.figure import Plot, Reference, Series
from mnemoscope.report.document import Cell, Figure, Section, Table, finding
from mnemoscope.studies.retention.controls import cost, limits, order, rates
from mnemoscope.studies.retention.finding import findings, recall_by_age
from mnemoscope.studies.retention.plots import by_family, curve_rows
from mnemoscope.studies.retention.result import Memory, Point, RetentionResult, front
from mnemoscope.studies.sentences import band, bands_of, leaders, spread

FRONT = 6  # the style of the front in all panels
COLUMNS = ["model", "size", "parameters", "bytes", "bits", "bits/byte", "bits/MFLOP"]
COLUMNS += ["half-life", "horizon"]


def page(result: RetentionResult) -> list[Section]:
    """Build the sections of the page."""
    begun = [] if result.whole else [_unfinished(result)]
    # Until all of it is there, what is shipped is better evidence.
    shown = result if result.whole or result.shipped is None else result.shipped
    if not shown.known:
        lost = "Every training diverged, so there is nothing to show: try lower learning_rates."
        return begun or [Section("Nothing was learnt", [lost])]
    lead = finding(*findings(result), figure=recall_by_age(result))
    parts = (_by_bytes, _by_load, cost, order, rates, limits)
    return [lead, *begun, *(part(shown) for part in parts)]


def _unfinished(result: RetentionResult) -> Section:
    some = [memory.label for memory in result.memories if memory not in result.known]
    missing = f" Nothing is known yet of {', '.join(some)}." if some else ""
    seeds = [len(result.chosen(memory, memory.middle)) for memory in result.known]
    fewest = f" Seeds behind every curve: {spread(seeds)}." if seeds else ""
    follows = "the best so far, with learning rates that may still change"
    if result.shipped is not None:
        follows = f"of the shipped result, made on {result.shipped_on}"
    return Section(
        "Not finished",
        [
            f"{len(result.trials)} of {result.planned} trainings are done; what follows is "
            f"{follows}.{fewest}{missing} Reload this page to see more; the command below "
            "continues a study that was stopped."
        ],
    )


def _curves(result: RetentionResult, along: Along, title: str, **options: Any) -> Plot:
    x = result.x(along)

    def curve(memory: Memory, style: int) -> Series:
        return band(memory.label, x, result.bits(memory, along), style)

    return by_family(result.families, curve, title, "bits recalled", **options)


def _by_bytes(result: RetentionResult) -> Section:
    points, learnt = result.points, result.learnt
    best = front(learnt, result.least)
    most = result.pairs * math.log2(result.values)
    carried, means = [one.bytes for one in best], [one.bits.mean() for one in best]
    edge = Series("Pareto front", carried, means, style=FRONT)
    ends = [math.log10(end(one.bytes for one in points)) for end in (min, max)]

    def curve(memory: Memory, style: int) -> Series:
        own = [one for one in points if one.memory == memory]
        return bands_of(memory.label, [one.bytes for one in own], (o.bits for o in own), style)

    figure = by_family(
        result.families, curve, "bytes carried", "bits recalled", [edge], y_range=(0, 1.06 * most)
    )
    # With more bytes at hand one can still carry fewer.
    figure.update_traces(line_shape="hv", selector={"name": edge.name})
    figure.update_xaxes(type="log", dtick=1, range=[ends[0] - 0.15, ends[1] + 0.15])
    listed = "; ".join(
        f"{_named(one)} ({one.bits.mean():.1f} bits in {one.bytes:.0f} bytes)" for one in best
    )
    densest = max(learnt, key=lambda one: one.bits.mean() / one.bytes, default=None)
    words = [
        f"By mean over seeds, no model that learnt the task has more bits in as few bytes than "
        f"these, from small to large: {listed or 'none'}."
    ]
    if densest is not None:
        words.append(
            f"Most bits per byte, by mean: {_named(densest)}, with "
            f"{densest.bits.mean() / densest.bytes:.3f} of the 8 bits that a byte can hold."
        )
    return Section(
        "Bits for bytes",
        [
            *words,
            Figure(
                "Recall against bytes",
                figure.update_layout(hovermode="closest"),
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
                "lowest to highest seed, – where nothing was recalled at any age.",
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
    curves = {
        memory.label: result.bits(memory, "overwrites")
        for memory in result.known
        if result.gate(memory).passed
    }
    lost = {name: bits[:, 0] - bits[:, -1] for name, bits in curves.items()}
    told = "no memory loses as much as counts"
    if lost and max(float(one.mean()) for one in lost.values()) >= result.least:
        told = leaders(lost, result.least, ("loses most", "lose most"), ".1f", " bits")
    return Section(
        "More to keep, and values that change",
        [
            f"With {twice[-1]} of {result.age_pairs} items overwritten, {told}.",
            Figure(
                "Recall against items",
                _curves(
                    result, "items", "items stored",
                    log_x=True, y_range=(0, 1.06 * items[-1] * most),
                ),
                "Bits recalled of one episode in which every item is asked for once. Lines, bands "
                "and sizes as above.",
                curve_rows(result, "items"),
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
                curve_rows(result, "overwrites"),
            ),
        ],
    )  # fmt: skip
