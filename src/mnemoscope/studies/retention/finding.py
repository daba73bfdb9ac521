"""What the page of `retention` leads with: who recalls most, how late, in how many bytes."""

from __future__ import annotations

import math
from dataclasses import replace

from mnemoscope.core.arrays import Floats
from mnemoscope.plots.figure import Reference, Region, Series
from mnemoscope.report.document import Cell, Figure
from mnemoscope.studies.retention.plots import by_family, curve_rows
from mnemoscope.studies.retention.result import Memory, Point, RetentionResult
from mnemoscope.studies.sentences import band, few, leaders, leading

SHIPPED = ", shipped"


def findings(result: RetentionResult) -> list[str]:
    """Up to three sentences; of the shipped result as long as this one is not whole."""
    done = f"{len(result.trials)} of {result.planned} trainings are done"
    if result.shipped is None:
        begun = [] if result.whole else [f"This is not the end: {done}."]
        return [*begun, *recalled(result)][:3]
    if not result.whole:
        return [
            f"Shown is the result of the full study that is shipped with mnemoscope, made on "
            f"{result.shipped_on}; of this run {done}, and their curves join it.",
            *recalled(result.shipped)[:2],
        ]
    return [*recalled(result)[:2], *_compared(result, result.shipped)]


def recalled(result: RetentionResult) -> list[str]:
    """Who recalls most within the trained ages, beyond them, and per byte."""
    bits = {m.label: result.bits(m, "age") for m in result.known if result.gate(m).passed}
    failed = [memory.label for memory in result.known if memory.label not in bits]
    ages, most = result.x("age"), math.log2(result.values)
    if not bits:
        return [
            f"No memory has learnt the task: at age {ages[0]} none recalls more than "
            f"{result.least:g} of {most:g} bits in every seed."
        ]
    at = ages.index(result.oldest_trained)
    first = leading({name: one[:, at] for name, one in bits.items()}, result.least)[0]
    told = [
        f"After {ages[at]} tokens, the oldest age seen in training, "
        f"{_most(bits, at, result.least, f' of {most:g} bits')}; with the state emptied after the "
        f"last write, no memory recalls more than {result.blanked:.2f}"
    ]
    if at < len(ages) - 1:
        last = _most(bits, -1, result.least, " bits")
        if first not in leading({n: one[:, -1] for n, one in bits.items()}, result.least):
            last += f"; {first} has {bits[first][:, -1].mean():.2f} left"
        told.append(f"After {ages[-1]} tokens, beyond all training, {last}")
    if failed:
        told[-1] += f"; {few(failed, f'{len(failed)} memories')} did not learn the task"
    told.append(f"{_per_byte(result)}; {_in_all(result)}")
    return [f"{one}." for one in told]


def _per_byte(result: RetentionResult) -> str:
    """Whose bytes recall most, of memories that learnt the task; seeds may not agree on who."""
    points = result.learnt
    dense = max(points, key=lambda one: one.bits.mean() / one.bytes)
    near = dense.bits.min() / dense.bytes
    others = {o.memory.label: o for o in points if o.bits.max() / o.bytes >= near}
    unsure = [name for name in others if name != dense.memory.label]
    told = (
        f"Per byte carried, {dense.memory.label} recalls most: {dense.bits.mean():.1f} bits of an "
        f"episode in {dense.bytes:.0f} bytes"
    )
    many = f"{len(unsure)} others"
    return f"{told}, though not more than {few(unsure, many)} in every seed" if unsure else told


def _in_all(result: RetentionResult) -> str:
    """Who recalls the most of an episode, in the size of each memory that recalls most."""
    best: dict[str, Point] = {}
    for one in result.learnt:
        label = one.memory.label
        if label not in best or one.bits.mean() > best[label].bits.mean():
            best[label] = one
    values = {label: one.bits for label, one in best.items()}
    verbs = ("recalls the most of all", "recall the most of all")
    carried = best[leading(values, result.least)[0]].bytes
    told = leaders(values, result.least, verbs, ".1f", " bits")
    return f"{told}, the first from {carried:.0f} bytes"


def _most(bits: dict[str, Floats], at: int, least: float, unit: str) -> str:
    """Who recalls most at one age, if anybody recalls what counts."""
    values = {name: one[:, at] for name, one in bits.items()}
    if values[leading(values, least)[0]].mean() < least:
        return f"no memory recalls as much as {least:g}{unit}"
    return leaders(values, least, ("recalls most", "recall most"), ".2f", unit)


def _compared(result: RetentionResult, shipped: RetentionResult) -> list[str]:
    """By how much a run departs from the shipped result, at the oldest age that both trained."""
    age = result.oldest_trained
    theirs = {memory.name: memory for memory in shipped.known}
    if age not in shipped.x("age") or not any(one.name in theirs for one in result.known):
        return []
    ours, before = result.x("age").index(age), shipped.x("age").index(age)
    apart = {
        memory.label: abs(float(here[:, ours].mean() - there[:, before].mean()))
        for memory in result.known
        if memory.name in theirs
        for here in [result.bits(memory, "age")]
        for there in [shipped.bits(theirs[memory.name], "age")]
    }
    far = max(apart, key=lambda name: apart[name])
    furthest = ", the furthest of all memories in both" if len(apart) > 1 else ""
    return [
        f"At age {age}, {far} is {apart[far]:.2f} bits from the result of the full study that is "
        f"shipped with mnemoscope, made on {result.shipped_on}{furthest}."
    ]


def recall_by_age(result: RetentionResult) -> Figure:
    """Bits against age by family; where there is a shipped result, its curves are dotted."""
    results = {"": result} if result.known else {}
    if result.shipped is not None:
        results = {SHIPPED: result.shipped, **results}
    base = list(results.values())[-1]
    families: dict[str, list[Memory]] = {}
    curves: dict[str, tuple[tuple[int, ...], Floats]] = {}
    rows: list[dict[str, Cell]] = []
    for mark, one in results.items():
        for memory in one.known:
            named = replace(memory, label=memory.label + mark)
            families.setdefault(memory.family, []).append(named)
            curves[named.label] = one.x("age"), one.bits(memory, "age")
        rows += [{**row, "model": f"{row['model']}{mark}"} for row in curve_rows(one, "age")]

    def curve(memory: Memory, place: int) -> Series:
        kin = list(dict.fromkeys(one.name for one in families[memory.family]))
        return band(memory.label, *curves[memory.label], kin.index(memory.name))

    most = math.log2(base.values)
    figure = by_family(
        families,
        curve,
        "age (tokens since the write)",
        "bits recalled",
        columns=max(2, len(families)),
        region=Region(base.x("age")[0], base.oldest_trained, "ages seen in training"),
        references=[Reference(most, "all there was")],
        log_x=True,
        y_range=(0, 1.06 * most),
    )
    if len(families) > 2:  # narrow panels: every other age has room for its number
        some = base.x("age")[::2]
        figure.update_xaxes(tickvals=some, ticktext=list(map(str, some)))
    caption = (
        f"One of {base.age_pairs} values is asked for once, so many tokens after it was stored: "
        f"bits recalled of {most:g}, in the middle size of each memory. Line: mean of the seeds, "
        "band: lowest to highest; grey: all others; shaded: ages seen in training; dashed: all "
        "there was."
    )
    if result.shipped is not None:
        caption += f" Dotted, names in italics: shipped with mnemoscope, {result.shipped_on}."
        for trace in figure.data:
            if (trace.name or "").endswith(SHIPPED):
                # No room for the word in narrow panels.
                name = f"<i>{trace.name.removesuffix(SHIPPED)}</i>"
                trace.update(name=name, line={"dash": "dot", "width": 1.4}, marker={"size": 4})
    return Figure("Recall against age", figure, caption, rows)
