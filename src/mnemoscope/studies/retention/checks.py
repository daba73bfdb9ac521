"""The second half of the page of `retention`: what going on costs, and what could be doubted."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mnemoscope.plots.figure import Reference, Series, lines
from mnemoscope.plots.small_multiples import panels
from mnemoscope.report.document import Figure, Section
from mnemoscope.studies.retention.result import (
    Result,
    curves,
    families,
    known,
    label,
    middle_cost,
    unstable,
)
from mnemoscope.studies.sentences import ranked

if TYPE_CHECKING:
    import plotly.graph_objects as go


def sheet(result: Result, draw: Callable[[list[str]], go.Figure], ghosts: bool = True) -> Any:
    """One panel for each family."""
    return panels([(f, draw(names)) for f, names in families(result).items()], ghosts=ghosts)


def cost(result: Result) -> Section:
    """Bytes carried and operations spent, by how much was read."""

    def drawn(what: str, title: str) -> Any:
        def draw(names: list[str]) -> go.Figure:
            series = []
            for style, name in enumerate(names):
                costs = middle_cost(result, name)
                name_shown = label(result, name)
                series.append(Series(name_shown, costs["lengths"], costs[what], style=style))
            figure = lines(series, "tokens read", title, log_x=True)
            values = [v for name in known(result) for v in middle_cost(result, name)[what]]
            span = [math.log10(min(values)) - 0.15, math.log10(max(values)) + 0.15]
            return figure.update_layout(yaxis={"type": "log", "range": span, "dtick": 1})

        return sheet(result, draw)

    lengths = middle_cost(result, known(result)[0])["lengths"]
    grows, settled = [], []
    for name in known(result):
        carried = middle_cost(result, name)["bytes"]
        if carried[-1] > 1.1 * carried[-2]:
            grows.append(f"{label(result, name)} ({carried[-1] / carried[0]:.0f} times)")
        else:
            settled.append(label(result, name))
    said = f"From {lengths[0]} to {lengths[-1]} tokens the state grows, with no end, of "
    said += (
        f"{', '.join(grows) or 'none'}; it has come to its size of {', '.join(settled) or 'none'}."
    )
    data = [
        {"model": label(result, name), "size": size, "tokens": length}
        | {"bytes": costs["bytes"][place], "flops": costs["flops"][place]}
        for name in known(result)
        for size, costs in zip(
            result["memories"][name]["sizes"], result["memories"][name]["costs"], strict=True
        )
        for place, length in enumerate(costs["lengths"])
    ]
    return Section(
        "What it costs to go on",
        [
            said,
            Figure(
                "Bytes against length",
                drawn("bytes", "bytes carried"),
                "Measured: what must be saved for a fresh process to go on bit for bit. Middle "
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


def order(result: Result) -> Section:
    """Whether seeds agree on who recalls more than whom."""
    said = []
    for along, what in (("items", "bits recalled of all items"), ("age", "bits over all ages")):
        values = {
            label(result, name): curves(result, name, along).mean(1)
            if along == "age"
            else curves(result, name, along).max(1)
            for name in known(result)
        }
        seeds = min(map(len, values.values()))
        pairs = unstable({name: found[:seeds] for name, found in values.items()})
        total = len(values) * (len(values) - 1) // 2
        if seeds < 2:
            said.append(f"By {what} there is one seed only: no order can be called stable.")
        elif not pairs:
            said.append(f"By {what} the order is the same in all {seeds} seeds: {ranked(values)}.")
        else:
            names = "; ".join(f"{a} and {b}" for a, b in pairs)
            said.append(
                f"By {what} the order is not stable: {len(pairs)} of {total} pairs change places "
                f"between {seeds} seeds ({names})."
            )
    return Section("Is the order stable?", said)


def rates(result: Result) -> Section:
    """Which learning rates were tried, and whether a better one may lie outside."""
    tried: dict[str, dict[float, float | None]] = {}
    for name, facts in result["memories"].items():
        swept = [
            row
            for row in result["trials"]
            if (row["memory"], row["size"], row["seed"]) == (name, facts["middle"], 0)
        ]
        tried[name] = {
            row["lr"]: row.get("choosing") for row in sorted(swept, key=lambda row: row["lr"])
        }

    def draw(names: list[str]) -> go.Figure:
        series = [
            Series(
                label(result, name),
                list(tried[name]),
                [math.nan if v is None else v / math.log(2) for v in tried[name].values()],
                style=style,
            )
            for style, name in enumerate(names)
        ]
        guess = Reference(math.log2(result["values"]), "guessing")
        return lines(series, "learning rate", "loss (bits)", log_x=True, references=[guess])

    best = ", ".join(f"{label(result, n)} {result['memories'][n]['lr']:g}" for n in known(result))
    swept_rates = sorted({rate for found in tried.values() for rate in found})
    ends = {swept_rates[0]: "lowest", swept_rates[-1]: "highest"} if len(swept_rates) > 1 else {}
    at_end = [
        f"{label(result, n)} ({ends[result['memories'][n]['lr']]})"
        for n in known(result)
        if result["memories"][n]["lr"] in ends
    ]
    edge = (
        f"At an end of the sweep, where a better one may lie just outside: {', '.join(at_end)}."
        if at_end
        else "No best rate lies at an end of the sweep."
        if ends
        else "There was one rate only: nothing was swept."
    )
    diverged = sum("diverged" in row for row in result["trials"])
    return Section(
        "The learning rate decides",
        [
            f"The rate was swept for every memory at its middle size with one seed, on held-out "
            f"episodes that nothing above uses; other sizes and seeds were trained at the best: "
            f"{best}. {edge} Trainings that diverged: {diverged} of {len(result['trials'])}.",
            Figure(
                "Loss against learning rate",
                sheet(result, draw),
                "Held-out cross-entropy of an answer, seed 0, middle size. Dashed: guessing.",
                [
                    {"model": label(result, name), "lr": rate, "loss": loss}
                    for name, found in tried.items()
                    for rate, loss in found.items()
                ],
            ),
        ],
    )


def limits(result: Result) -> Section:
    """What the controls recalled, and how near anybody came to what is possible."""
    found = [row for row in result["trials"] if "curves" in row]
    all_curves = [curve for row in found for curve in row["curves"].values()]
    blanked = max(max(curve["blanked"]) for curve in all_curves)
    shuffled = max(max(curve["shuffled"]) for curve in all_curves)
    tightest = max(
        bits / size
        for curve in all_curves
        for bits, size in zip(curve["bits"], curve["narrowest"], strict=True)
    )
    return Section(
        "Controls and limits",
        [
            "Bits recalled are Σ max(0, log₂ V − cross-entropy) over the questions of an episode, "
            f"V = {result['values']}, with the softmax over the V values only. Means over "
            f"{result['episodes']} episodes are taken before the maximum, for each question by its "
            "place, because the maximum of a noisy number is too large.",
            f"With the state blanked after the last write, no model recalled more than "
            f"{blanked:.2f} bits; with the answers of another episode, {shuffled:.2f}.",
            f"In {len(found)} trainings no model recalled more than {tightest:.3f} bits per byte "
            "of the least that it carried between the last write and the last question; more than "
            "8 is impossible, and would have stopped the study.",
            "Models were small and trained for minutes: a memory that recalls little here may have "
            "been slow to learn rather than short of room.",
        ],
    )
