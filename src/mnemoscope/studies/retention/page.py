"""The page of the study `retention`: every figure and every sentence is computed from its result.

It can be made of a result that is not whole yet; then it says what is missing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mnemoscope.plots.figure import Reference, Region, Series, lines
from mnemoscope.report.document import Figure, Section, Table
from mnemoscope.studies.retention.checks import cost, limits, order, rates, sheet
from mnemoscope.studies.retention.result import (
    Floats,
    Result,
    asked_at,
    curves,
    front,
    known,
    label,
    points,
    rows,
    span,
)
from mnemoscope.studies.sentences import SIGNS, ranked

if TYPE_CHECKING:
    import plotly.graph_objects as go

FRONT = 6  # the style of the front in all panels
COLUMNS = ["model", "size", "parameters", "bytes", "bits", "bits/byte", "bits/MFLOP"]
COLUMNS += ["half-life", "horizon"]


def tell(result: Result) -> Sequence[Section]:
    """Build the sections of the page."""
    done, planned = len(result["trials"]), result["planned"]
    begun = [] if done >= planned else [_unfinished(result)]
    if not known(result):
        return begun
    return [
        *begun,
        _by_age(result),
        _by_bytes(result),
        _by_load(result),
        cost(result),
        order(result),
        rates(result),
        limits(result),
    ]


def _unfinished(result: Result) -> Section:
    done, planned = len(result["trials"]), result["planned"]
    some = [label(result, name) for name in result["memories"] if name not in known(result)]
    missing = f" Nothing is known yet of {', '.join(some)}." if some else ""
    seeds = [len(rows(result, n, result["memories"][n]["middle"])) for n in known(result)]
    fewest = ""
    if seeds:
        many = f"{min(seeds)} to {max(seeds)}" if min(seeds) < max(seeds) else str(seeds[0])
        fewest = f" Seeds behind every curve: {many}."
    return Section(
        "Not finished",
        [
            f"{done} of {planned} trainings are done; what follows is the best so far, with "
            f"learning rates that may still change.{fewest}{missing} Reload this page to see more; "
            "the command below goes on with a study that was stopped."
        ],
    )


def _banded(result: Result, memory: str, style: int, x: Any, values: Floats) -> Series:
    return Series(
        label(result, memory), x, values.mean(0), values.min(0), values.max(0), style=style
    )


def _curve_sheet(result: Result, along: str, title: str, **options: Any) -> Any:
    x = asked_at(result, along)

    def draw(names: list[str]) -> go.Figure:
        series = [
            _banded(result, name, style, x, curves(result, name, along))
            for style, name in enumerate(names)
        ]
        return lines(series, title, "bits recalled", **options)

    return sheet(result, draw)


def _curve_rows(result: Result, along: str) -> list[dict[str, Any]]:
    return [
        {"model": label(result, row["memory"]), "size": row["size"], "lr": row["lr"]}
        | {"seed": row["seed"], along: x}
        | {name: row["curves"][along][name][place] for name in ("bits", "blanked", "shuffled")}
        | {"bytes": row["curves"][along]["bytes"][place]}
        for memory in known(result)
        for size in result["memories"][memory]["sizes"]
        for row in rows(result, memory, size)
        if "curves" in row
        for place, x in enumerate(row["curves"][along]["x"])
    ]


def _by_age(result: Result) -> Section:
    ages = asked_at(result, "age")
    most = math.log2(result["values"])
    inside = max(age for age in ages if age < result["trained"])
    said = [SIGNS]
    for age in dict.fromkeys((inside, ages[-1])):
        place = ages.index(age)
        values = {
            label(result, name): curves(result, name, "age")[:, place] for name in known(result)
        }
        where = "the oldest age seen in training" if age == inside else "beyond all training"
        said.append(f"Bits recalled at age {age}, {where}: {ranked(values)}.")
    figure = _curve_sheet(
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
                f"One of {result['age_pairs']} values is asked for once, so many tokens after it "
                f"was stored: bits recalled of {most:g}, in the middle size of each memory. Line: "
                "mean of the seeds, band: lowest to highest; grey: all others; shaded: ages seen "
                "in training; dashed: all there was.",
                _curve_rows(result, "age"),
            ),
        ],
    )


def _by_bytes(result: Result) -> Section:
    found = points(result)
    best = front(found, math.log2(result["values"]) / 20)
    most = result["pairs"] * math.log2(result["values"])
    edge = Series(
        "Pareto front",
        [one["bytes"] for one in best],
        [one["bits"].mean() for one in best],
        style=FRONT,
    )

    def draw(names: list[str]) -> go.Figure:
        series = []
        for style, name in enumerate(names):
            own = [one for one in found if one["memory"] == name]
            carried, bits = [one["bytes"] for one in own], [one["bits"] for one in own]
            middle, low, high = ([f(b) for b in bits] for f in (np.mean, np.min, np.max))
            series.append(Series(label(result, name), carried, middle, low, high, style=style))
        figure = lines([*series, edge], "bytes carried", "bits recalled", y_range=(0, 1.06 * most))
        figure.data[-1].line.shape = "hv"  # with more bytes at hand one can still carry fewer
        ends = [math.log10(f(one["bytes"] for one in found)) for f in (min, max)]
        reach = [ends[0] - 0.15, ends[1] + 0.15]
        return figure.update_layout(
            xaxis={"type": "log", "dtick": 1, "range": reach}, hovermode="closest"
        )

    listed = "; ".join(
        f"{label(result, one['memory'])} at {result['memories'][one['memory']]['turned']} "
        f"{one['size']} ({one['bits'].mean():.1f} bits in {one['bytes']:.0f} bytes)"
        for one in best
    )
    densest = max(found, key=lambda one: one["bits"].mean() / one["bytes"])
    ratio = densest["bits"].mean() / densest["bytes"]
    table = [_facts(result, one) for one in found]
    return Section(
        "Bits for bytes",
        [
            f"No model has more bits in as few bytes than these, from small to large: "
            f"{listed or 'none'}.",
            f"Most bits per byte: {label(result, densest['memory'])} at "
            f"{result['memories'][densest['memory']]['turned']} {densest['size']}, with "
            f"{ratio:.3f} of the 8 bits that a byte can hold.",
            Figure(
                "Recall against bytes",
                sheet(result, draw),
                f"Most bits recalled of one episode, of at most {most:g}, against the bytes that "
                "one stream carries while the questions come. A point is a size; band: lowest to "
                "highest seed; grey: all others.",
                [
                    {"model": label(result, one["memory"]), "size": one["size"]}
                    | {"bytes": one["bytes"], "seed": seed, "bits": float(bits)}
                    | {"on the front": str(one in best).lower()}
                    for one in found
                    for seed, bits in enumerate(one["bits"])
                ],
            ),
            Table(
                "All sizes",
                COLUMNS,
                table,
                "Size: width of recurrent, attention and sparse models, tokens cached of the "
                "others. Means over seeds; half-life (age at which half of the most bits is left) "
                "and horizon (age from which on less than a twentieth of an answer is left): "
                "lowest to highest seed, – where there was nothing to lose.",
            ),
        ],
    )


def _facts(result: Result, one: dict[str, Any]) -> list[Any]:
    facts = result["memories"][one["memory"]]
    here = [row for row in rows(result, one["memory"], one["size"]) if "curves" in row]
    parameters = facts["parameters"][facts["sizes"].index(one["size"])]
    bits = float(one["bits"].mean())
    spent = float(np.mean([row["flops"] for row in here]))
    oldest = asked_at(result, "age")[-1]
    return [
        facts["label"],
        one["size"],
        parameters,
        round(one["bytes"]),
        round(bits, 2),
        round(bits / one["bytes"], 4),
        round(1e6 * bits / spent, 2),
        span([row["half_life"] for row in here], oldest),
        span([row["horizon"] for row in here], oldest),
    ]


def _by_load(result: Result) -> Section:
    items, twice = asked_at(result, "items"), asked_at(result, "overwrites")
    most = math.log2(result["values"])
    last = {label(result, name): curves(result, name, "items")[:, -1] for name in known(result)}
    lost = {
        name: curves(result, name, "overwrites")[:, 0] - curves(result, name, "overwrites")[:, -1]
        for name in known(result)
    }
    worst = max(lost, key=lambda name: float(lost[name].mean()))
    return Section(
        "More to keep, and values that change",
        [
            f"With {items[-1]} items stored, each asked once: {ranked(last)}, of "
            f"{items[-1] * most:g} bits.",
            f"{twice[-1]} of {result['age_pairs']} items written twice cost "
            f"{label(result, worst)} most, {lost[worst].mean():.1f} bits.",
            Figure(
                "Recall against items",
                _curve_sheet(
                    result, "items", "items stored",
                    log_x=True, y_range=(0, 1.06 * items[-1] * most),
                ),
                "Bits recalled of one episode in which every item is asked for once. Lines, bands "
                "and sizes as above.",
                _curve_rows(result, "items"),
            ),
            Figure(
                "Recall against overwrites",
                _curve_sheet(
                    result, "overwrites", "items overwritten",
                    references=[Reference(result["age_pairs"] * most, "all there was")],
                    y_range=(0, 1.06 * result["age_pairs"] * most),
                ),
                f"The same with {result['age_pairs']} items, some of them written twice; the later "
                "value counts. Dashed: all there was.",
                _curve_rows(result, "overwrites"),
            ),
        ],
    )  # fmt: skip
