"""The second half of the page of `retention`: what continuing costs, and what could be doubted."""

from __future__ import annotations

import math
from typing import Literal

from mnemoscope.lenses.retention.episodes import Along
from mnemoscope.plots.figure import Plot, Reference, Series
from mnemoscope.report.document import Cell, Figure, Section
from mnemoscope.studies.retention.plots import by_family
from mnemoscope.studies.retention.result import (
    Examined,
    Memory,
    RetentionResult,
    unstable,
)
from mnemoscope.studies.sentences import best_rates, gated, ranked, signs


def cost(result: RetentionResult) -> Section:
    """Bytes carried and operations spent, by how much was read."""

    def drawn(what: Literal["bytes", "flops"], title: str) -> Plot:
        values: dict[str, tuple[int, ...]] = {
            memory.label: getattr(memory.middle.cost, what) for memory in result.known
        }
        ends = [math.log10(end(map(end, values.values()))) for end in (min, max)]

        def curve(memory: Memory, style: int) -> Series:
            tokens = memory.middle.cost.lengths
            return Series(memory.label, tokens, values[memory.label], style=style)

        figure = by_family(result.families, curve, "tokens read", title, log_x=True)
        return figure.update_yaxes(type="log", range=[ends[0] - 0.15, ends[1] + 0.15], dtick=1)

    lengths = result.known[0].middle.cost.lengths
    grows, settled = [], []
    for memory in result.known:
        carried = memory.middle.cost.bytes
        if carried[-1] > 1.1 * carried[-2]:
            grows.append(f"{memory.label} ({carried[-1] / carried[0]:.0f} times)")
        else:
            settled.append(memory.label)
    names = "tokens", "bytes", "flops"
    data: list[dict[str, Cell]] = [
        {"model": memory.label, "size": size.value, **dict(zip(names, point, strict=True))}
        for memory in result.known
        for size in memory.sizes
        for point in zip(size.cost.lengths, size.cost.bytes, size.cost.flops, strict=True)
    ]
    return Section(
        "What it costs to continue",
        [
            f"From {lengths[0]} to {lengths[-1]} tokens the state keeps growing in "
            f"{', '.join(grows) or 'none'}; it grows no more in "
            f"{', '.join(settled) or 'none'}.",
            Figure(
                "Bytes against length",
                drawn("bytes", "bytes carried"),
                "Measured: what must be saved for a fresh process to continue bit for bit. Middle "
                "sizes.",
                data,
            ),
            Figure(
                "FLOPs against length",
                drawn("flops", "FLOPs per token"),
                "Operations of the matrix products of one more token after so many, read alone. "
                "Middle sizes.",
                data,
            ),
        ],
    )


def order(result: RetentionResult) -> Section:
    """Who recalls more than whom, and whether seeds agree on it."""
    passed, gates = gated({memory.label: result.gate(memory) for memory in result.known})
    said = [gates, signs(result.least, "bits")]
    ages, items = result.x("age"), result.x("items")
    for age in dict.fromkeys((result.oldest_trained, ages[-1])):
        values = {
            memory.label: result.bits(memory, "age")[:, ages.index(age)]
            for memory in result.known
            if memory.label in passed
        }
        inside = age == result.oldest_trained
        where = "the oldest age seen in training" if inside else "beyond all training"
        said.append(f"Bits recalled at age {age}, {where}: {ranked(values, least=result.least)}.")
    last = {memory.label: result.bits(memory, "items")[:, -1] for memory in result.known}
    failed = [name for name in last if name not in passed]
    told = ranked(last, least=result.least, failed=failed)
    return Section(
        "Who before whom, and in every seed?",
        [
            *said,
            f"With {items[-1]} items stored, each asked once: {told}, "
            f"of {items[-1] * math.log2(result.values):g} bits.",
            _stable(result, "items", "bits recalled of all items"),
            _stable(result, "age", "bits over all ages"),
        ],
    )


def _stable(result: RetentionResult, along: Along, what: str) -> str:
    bits = {
        memory.label: result.bits(memory, along)
        for memory in result.known
        if result.gate(memory).passed
    }
    if not bits:
        return f"By {what} nothing can be ordered: no memory has passed its gate."
    values = {name: one.mean(1) if along == "age" else one.max(1) for name, one in bits.items()}
    seeds = min(map(len, values.values()))
    if seeds < 2:
        return f"By {what} there is one seed only: no order can be called stable."
    pairs = unstable({name: found[:seeds] for name, found in values.items()})
    if not pairs:
        told = ranked(values, least=result.least)
        return f"By {what} the order is the same in all {seeds} seeds: {told}."
    return (
        f"By {what} the order is not stable: {len(pairs)} of "
        f"{len(values) * (len(values) - 1) // 2} pairs change places between {seeds} seeds "
        f"({'; '.join(f'{a} and {b}' for a, b in pairs)})."
    )


def rates(result: RetentionResult) -> Section:
    """Which learning rates were tried, and whether a better one may lie outside."""
    tried = {
        memory: {rate: loss if math.isfinite(loss) else None for rate, loss in losses.items()}
        for memory in result.memories
        for losses in [result.swept(memory)]
    }

    def curve(memory: Memory, style: int) -> Series:
        rates = tried[memory]
        bits = [math.nan if loss is None else loss / math.log(2) for loss in rates.values()]
        return Series(memory.label, list(rates), bits, style=style)

    guess = Reference(math.log2(result.values), "guessing")
    best = {memory.label: result.lr(memory) for memory in result.known}
    swept = [rate for found in tried.values() for rate in found]
    diverged = sum(not isinstance(one.found, Examined) for one in result.trials)
    return Section(
        "The learning rate decides",
        [
            f"The rate was swept for every memory at its middle size with one seed, on held-out "
            f"episodes that nothing above uses; other sizes and seeds were trained at the best: "
            f"{best_rates(best, swept)} "
            f"Trainings that diverged: {diverged} of {len(result.trials)}.",
            Figure(
                "Loss against learning rate",
                by_family(
                    result.families,
                    curve,
                    "learning rate",
                    "loss (bits)",
                    log_x=True,
                    references=[guess],
                ),
                "Held-out cross-entropy of an answer, seed 0, middle size. Dashed: guessing.",
                [
                    {"model": memory.label, "lr": rate, "loss": loss}
                    for memory, found in tried.items()
                    for rate, loss in found.items()
                ],
            ),
        ],
    )


def limits(result: RetentionResult) -> Section:
    """What the controls recalled, and how near anybody came to what is possible."""
    found = [one.found for one in result.trials if isinstance(one.found, Examined)]
    curves = [curve for one in found for curve in one.curves.values()]
    shuffled = max(max(curve.shuffled) for curve in curves)
    tightest = max(
        bits / size
        for curve in curves
        for bits, size in zip(curve.bits, curve.narrowest, strict=True)
    )
    return Section(
        "Controls and limits",
        [
            "Bits recalled are Σ max(0, log₂ V − cross-entropy) over the questions of an episode, "
            f"V = {result.values}, with the softmax over the V values only. Means over "
            f"{result.episodes} episodes are taken before the maximum, for each question by its "
            "position, because the maximum of a noisy number is too large.",
            f"With the state blanked after the last write, no model recalled more than "
            f"{result.blanked:.2f} bits; with the answers of another episode, {shuffled:.2f}.",
            f"In {len(found)} trainings no model recalled more than {tightest:.3f} bits per byte "
            "of the least that it carried between the last write and the last question; more than "
            "8 is impossible, and would have stopped the study.",
            "Models were small and trained for minutes: a memory that recalls little here may have "
            "been slow to learn rather than short of room.",
        ],
    )
