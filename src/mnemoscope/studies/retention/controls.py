"""The second half of the page of `retention`: what going on costs, and what could be doubted."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from mnemoscope.lenses.retention.episodes import Along
from mnemoscope.plots.figure import Reference, Series, lines
from mnemoscope.plots.small_multiples import small_multiples
from mnemoscope.report.document import Cell, Figure, Section
from mnemoscope.studies.retention.result import (
    Examined,
    Memory,
    RetentionResult,
    unstable,
)
from mnemoscope.studies.sentences import edge_of_sweep, ranked

if TYPE_CHECKING:
    import plotly.graph_objects as go


def by_family(result: RetentionResult, draw: Callable[[list[Memory]], go.Figure]) -> go.Figure:
    """One panel for each family."""
    return small_multiples(
        [(family, draw(memories)) for family, memories in result.families.items()]
    )


def cost(result: RetentionResult) -> Section:
    """Bytes carried and operations spent, by how much was read."""

    def drawn(of: Callable[[Memory], tuple[int, ...]], title: str) -> go.Figure:
        values = [value for memory in result.known for value in of(memory)]
        span = [math.log10(min(values)) - 0.15, math.log10(max(values)) + 0.15]

        def draw(memories: list[Memory]) -> go.Figure:
            series = [
                Series(memory.label, memory.middle.cost.lengths, of(memory), style=style)
                for style, memory in enumerate(memories)
            ]
            figure = lines(series, "tokens read", title, log_x=True)
            return figure.update_layout(yaxis={"type": "log", "range": span, "dtick": 1})

        return by_family(result, draw)

    lengths = result.known[0].middle.cost.lengths
    grows, settled = [], []
    for memory in result.known:
        carried = memory.middle.cost.bytes
        if carried[-1] > 1.1 * carried[-2]:
            grows.append(f"{memory.label} ({carried[-1] / carried[0]:.0f} times)")
        else:
            settled.append(memory.label)
    data: list[dict[str, Cell]] = [
        {
            "model": memory.label,
            "size": size.value,
            "tokens": tokens,
            "bytes": size_,
            "flops": flops,
        }
        for memory in result.known
        for size in memory.sizes
        for tokens, size_, flops in zip(
            size.cost.lengths, size.cost.bytes, size.cost.flops, strict=True
        )
    ]
    return Section(
        "What it costs to go on",
        [
            f"From {lengths[0]} to {lengths[-1]} tokens the state grows, with no end, of "
            f"{', '.join(grows) or 'none'}; it has come to its size of "
            f"{', '.join(settled) or 'none'}.",
            Figure(
                "Bytes against length",
                drawn(lambda memory: memory.middle.cost.bytes, "bytes carried"),
                "Measured: what must be saved for a fresh process to go on bit for bit. Middle "
                "sizes.",
                data,
            ),
            Figure(
                "FLOPs against length",
                drawn(lambda memory: memory.middle.cost.flops, "FLOPs per token"),
                "Operations of the matrix products of one more token after so many, read alone. "
                "Middle sizes.",
                data,
            ),
        ],
    )


def order(result: RetentionResult) -> Section:
    """Whether seeds agree on who recalls more than whom."""
    return Section(
        "Is the order stable?",
        [
            _order(result, "items", "bits recalled of all items"),
            _order(result, "age", "bits over all ages"),
        ],
    )


def _order(result: RetentionResult, along: Along, what: str) -> str:
    bits = {memory.label: result.bits(memory, along) for memory in result.known}
    values = {name: one.mean(1) if along == "age" else one.max(1) for name, one in bits.items()}
    seeds = min(map(len, values.values()))
    if seeds < 2:
        return f"By {what} there is one seed only: no order can be called stable."
    pairs = unstable({name: found[:seeds] for name, found in values.items()})
    if not pairs:
        return f"By {what} the order is the same in all {seeds} seeds: {ranked(values)}."
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

    def draw(memories: list[Memory]) -> go.Figure:
        series = [
            Series(
                memory.label,
                list(tried[memory]),
                [math.nan if v is None else v / math.log(2) for v in tried[memory].values()],
                style=style,
            )
            for style, memory in enumerate(memories)
        ]
        guess = Reference(math.log2(result.values), "guessing")
        return lines(series, "learning rate", "loss (bits)", log_x=True, references=[guess])

    best = {memory.label: result.lr(memory) for memory in result.known}
    swept = sorted({rate for found in tried.values() for rate in found})
    diverged = sum(not isinstance(one.found, Examined) for one in result.trials)
    return Section(
        "The learning rate decides",
        [
            f"The rate was swept for every memory at its middle size with one seed, on held-out "
            f"episodes that nothing above uses; other sizes and seeds were trained at the best: "
            f"{', '.join(f'{name} {rate:g}' for name, rate in best.items())}. "
            f"{edge_of_sweep(best, swept)} "
            f"Trainings that diverged: {diverged} of {len(result.trials)}.",
            Figure(
                "Loss against learning rate",
                by_family(result, draw),
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
    blanked = max(max(curve.blanked) for curve in curves)
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
            f"{blanked:.2f} bits; with the answers of another episode, {shuffled:.2f}.",
            f"In {len(found)} trainings no model recalled more than {tightest:.3f} bits per byte "
            "of the least that it carried between the last write and the last question; more than "
            "8 is impossible, and would have stopped the study.",
            "Models were small and trained for minutes: a memory that recalls little here may have "
            "been slow to learn rather than short of room.",
        ],
    )
