"""The page of the study `caches`: every figure and every sentence is computed from its result."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mnemoscope.core.statistics import Interval
from mnemoscope.plots.figure import Reference, Series, lines
from mnemoscope.report.claims import claims_table
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.caches.claims import (
    claims,
    gate,
    rounding_over_dropping,
    window_forgets,
    winners,
)
from mnemoscope.studies.caches.result import CHOOSING, CONTROLS, FULL, LABELS, CachesResult
from mnemoscope.studies.findings import lead
from mnemoscope.studies.sentences import listed

TOLD = {
    "repeats": "Random tokens are read; then a few of them come again, and those that followed are "
    "asked.",
    "pairs": "Keys and their values stand among other tokens; a key comes again and its value is "
    "asked.",
    "facts": "Made-up sentences stand in a text of help topics; one is begun again and its last "
    "word is asked.",
}


def page(result: CachesResult) -> list[Section]:
    """Build the sections of the page."""
    first = next(iter(result.tasks))
    level = result.levels[-1]
    return [
        lead(_found(result), _by_age(result, first, level)),
        *(_section(result, task) for task in result.tasks),
        _bytes(result),
        _how(result),
    ]


def _found(result: CachesResult) -> list[str]:
    """The sentences of the finding: what a window loses, and what is best at equal bytes."""
    first = next(iter(result.tasks))
    passed = [task for task in result.tasks if gate(result, task).passed]
    if not passed:
        return ["Nothing can be compared: too little is recalled even with the full cache."]
    failed = [task for task in result.tasks if task not in passed]
    lost = [_lost(result, first)] if first in passed else []
    rest = f"; {listed(failed)} cannot be compared, since too little is recalled" if failed else ""
    return [*lost, f"{_rounded(result, passed)}.", f"{_chosen(result, passed)}{rest}."]


def _rounded(result: CachesResult, tasks: Sequence[str]) -> str:
    """Whether few bits of all tokens recall more than all bits of few."""
    first, level = tasks[0], result.levels[-1]
    few = result.bytes(first, result.at(level)["quantised"])
    share = few / result.bytes(first, FULL)
    said = f"With {share:.0%} of the bytes, all tokens at {level} bits a number"
    better = [
        task
        for task in tasks
        if all(one.verdict == "seen" for one in rounding_over_dropping(result, task, level))
    ]
    others = [task for task in tasks if task not in better]
    told = [f"recall more than a few unrounded tokens on {listed(better)}"] if better else []
    if others:
        told.append(f"do not surely recall more than window and random on {listed(others)}")
    return f"{said} {' and '.join(told)}"


def _chosen(result: CachesResult, tasks: Sequence[str]) -> str:
    """Whether choosing tokens by attention beats both controls."""
    level = result.levels[-1]
    named: dict[str, list[str]] = {}
    for task in tasks:
        better = winners(result, task, level)
        named.setdefault(listed(better) if better else "neither", []).append(task)
    told = [
        f"{who} {'beat' if ' and ' in who else 'beats'} both controls on {listed(where)}"
        for who, where in named.items()
    ]
    names = listed([LABELS[kind] for kind in CHOOSING])
    return f"Of {names}, which choose by attention, {'; '.join(told)}"


def _lost(result: CachesResult, task: str) -> str:
    """Full, rounded and window, of what is older than the window."""
    level = result.levels[-1]
    window = result.at(level)["window"]
    ages = result.beyond(task, window)
    held = result.models[0].asked[task][window].held
    # A sentence has room for the two with the fewest bits.
    packed = [(n, f"{b} bits") for n, (k, b) in result.caches.items() if k == "quantised"]
    words = [
        f"{_said(result.mean_bits(task, name, ages))} with {label}"
        for name, label in (
            (FULL, "the full cache"),
            *packed[-2:],
            (window, f"a window of {held} tokens"),
        )
    ]
    verdict = window_forgets(result, task).verdict
    forgets = "which forgets them" if verdict == "seen" else f"(that it forgets them: {verdict})"
    return (
        f"Bits recalled of {task} older than {held} tokens, of {result.tasks[task].most:.0f} each: "
        f"{listed(words)}, {forgets}."
    )


def _said(found: Sequence[Interval]) -> str:
    """One model: its interval; several: mean, and lowest to highest of them."""
    values = [float(one.value) for one in found]
    ends = (found[0].low, found[0].high) if len(found) == 1 else (min(values), max(values))
    return f"{np.mean(values):.2f} ({ends[0]:.2f} to {ends[1]:.2f})"


def _by_age(result: CachesResult, task: str, level: int) -> Figure:
    """Bits by age: full, rounded, and every evicting cache at the bytes of the rounded one."""
    known = result.at(level)
    shown = {FULL: FULL, known["quantised"]: f"{level} bits"}
    shown |= {known[kind]: LABELS[kind] for kind in (*CHOOSING, *CONTROLS)}
    ages, most = result.tasks[task].ages, result.tasks[task].most
    series, rows = [], []
    for cache, label in shown.items():
        bits = result.bits(task, cache)
        series.append(Series(label, ages, bits.value, bits.low, bits.high))
        for age, *values in zip(ages, bits.value, bits.low, bits.high, strict=True):
            row: dict[str, Cell] = {"cache": cache, "bytes": result.bytes(task, cache), "age": age}
            rows.append(row | dict(zip(("bits", "low", "high"), map(float, values), strict=True)))
    drawn = lines(
        series,
        "age (tokens since it was read)",
        "bits recalled of an answer",
        references=[Reference(most, "all there was")],
        log_x=True,
        y_range=(0, 1.05 * most),
    )
    few = result.bytes(task, known["quantised"])
    caption = (
        f"max(0, {most:.2f} − cross-entropy) at {few:,} bytes or just less, but for the full cache "
        f"with {result.bytes(task, FULL):,}. Band: 95 % bootstrap over episodes"
    )
    caption += f" of {len(result.models)} models." if len(result.models) > 1 else "."
    return Figure(f"{task.capitalize()} at the bytes of {level} bits", drawn, caption, rows)


def _section(result: CachesResult, task: str) -> Section:
    passed = gate(result, task)
    led = next(iter(result.tasks)), result.levels[-1]  # which the page begins with
    return Section(
        task.capitalize(),
        [
            f"{TOLD[task]} {passed}. Without the context {_blank(result, task)} bits are recalled.",
            *(_by_age(result, task, level) for level in result.levels if (task, level) != led),
            _table(result, task),
            claims_table(
                f"What is claimed of {task}",
                claims(result, task),
                "Effect: bits of an answer, mean over ages; of every model the end of the 95 % "
                "bootstrap interval over episodes that is nearest to nothing. What counts is a "
                "twentieth of an answer.",
            ),
        ],
    )


def _blank(result: CachesResult, task: str) -> str:
    costs = np.concatenate([np.array(m.asked[task][FULL].blanked) for m in result.models])
    return f"{max(0.0, result.tasks[task].most - float(costs.mean())):.2f}"


def _table(result: CachesResult, task: str) -> Table:
    full = result.bytes(task, FULL)
    rows: list[list[Cell]] = []
    for cache in result.caches:
        asked, size = result.models[0].asked[task][cache], result.bytes(task, cache)
        bits = _said(result.mean_bits(task, cache))
        rows.append(
            [cache, size, f"{size / full:.0%}", asked.held, bits, result.per_byte(task, cache)]
        )
    return Table(
        f"Bits and bytes of {task}",
        ["cache", "bytes", "of the full", "tokens held", "bits of an answer", "bits/byte"],
        rows,
        "Mean over ages. Bits per byte: of all that was asked in an episode, by what one stream "
        "carries when a question begins; at most 8.",
    )


def _bytes(result: CachesResult) -> Section:
    """What saves bytes and what does not, measured."""
    first = next(iter(result.tasks))
    full = result.bytes(first, FULL)
    sizes = {cache: result.bytes(first, cache) for cache in result.caches if cache != FULL}
    none = [cache for cache, size in sizes.items() if size >= full]
    told = f"no byte is saved by {listed(none)}" if none else "each of them saves bytes"
    packed = {b: sizes[n] for n, (k, b) in result.caches.items() if k == "quantised"}
    words = [f"{full / size:.2f} times those of {bits} bits" for bits, size in packed.items()]
    return Section(
        "Bytes are measured",
        [
            f"All caches carry the tensors that they hold, and {told}. Scales, zeros, scores and "
            "the last tokens, which are not rounded yet, are counted: the bytes of the full cache, "
            f"in numbers of {_WIDTHS[result.dtype]} bits, are {listed(words)}.",
        ],
    )


_WIDTHS = {"float32": 32, "bfloat16": 16, "float16": 16}


def _how(result: CachesResult) -> Section:
    if result.given:
        weights = f", {result.weights}" if result.weights else ""
        who = f"The model is {result.given}{weights}, in {result.dtype}; nothing was trained."
    else:
        who = (
            f"{len(result.models)} small Llamas of two layers were trained to continue random "
            "tokens that they have read before; pairs they have not seen in training."
        )
    episodes = len(result.models[0].asked[next(iter(result.tasks))][FULL].costs)
    return Section(
        "How it was asked",
        [
            f"{who} A context has {result.context} tokens and is read {result.segment} at a time; "
            "after each segment a cache lets go of tokens or rounds them. Every question is asked "
            f"from the state after the context, {episodes} contexts a task. Evicting caches hold "
            "as many tokens as fit into the bytes of the rounded one. Window holds the first 4 "
            "tokens and the last ones; random the first 4, the last half and a uniform sample of "
            "the others; H2O the last half and those with most attention so far; SnapKV the last "
            "16 and those that they attend to most.",
        ],
    )
