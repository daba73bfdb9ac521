"""What memories recover of what there is to gain: the floor carries nothing, the ceiling it all."""

from __future__ import annotations

import math

from mnemoscope.core.statistics import RESAMPLES as DRAWS
from mnemoscope.core.statistics import Estimate
from mnemoscope.plots.figure import Reference, Series, bars, lines
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.books.finding import estimated, shown
from mnemoscope.studies.books.losses import CEILING, FLOOR, RECOVERABLE, Losses
from mnemoscope.studies.findings import listed

_LINE = f"Line: 95 % of {DRAWS} bootstrap draws of seeds and passages."


def asked(losses: Losses) -> bool:
    """Whether the study was to have a floor and a ceiling: older ones were not."""
    return losses.result.context is not None and FLOOR in losses.result.models


def nothing_to_share(losses: Losses) -> str:
    """Why no share can be told, empty where it can: then nothing is claimed of any memory."""
    labels = {name: one.label for name, one in losses.result.models.items()}
    lost = [labels[name] for name in (FLOOR, CEILING) if name not in losses.models]
    if lost:
        return f"no training of {listed(lost)} came to its end"
    failed = [labels[name] for name in (FLOOR, CEILING) if name not in losses.ranked]
    if failed:
        return f"{listed(failed)} did not beat counted pairs of {losses.unit} in every seed"
    gain = losses.recoverable
    assert gain is not None
    if losses.enough:
        return ""
    return (
        f"full attention over {losses.result.context:,} {losses.unit} saves {shown(gain)} nats per "
        f"token against no memory, which is not surely {RECOVERABLE:g} or more, so there is "
        "too little to gain here"
    )


def told(losses: Losses) -> dict[str, Estimate]:
    """Shares of all memories that have learnt enough, the largest first."""
    models = [model for model in losses.remembering if model in losses.ranked]
    shares = {model: losses.share(model, losses.all) for model in models}
    return dict(sorted(shares.items(), key=lambda one: -one[1].mean))


def sentences(losses: Losses) -> list[str]:
    """What there is to gain, who recovers how much of it, and how much of that is old."""
    why = nothing_to_share(losses)
    if why:
        rest = " Memories were therefore not trained." if losses.result.stopped else ""
        return [f"What memories recover cannot be told, and nothing is claimed: {why}.{rest}"]
    gain = losses.recoverable
    assert gain is not None
    words = [
        f"Full attention over {losses.result.context:,} {losses.unit} saves {shown(gain)} nats per "
        "token against no memory: that is what there is to recover."
    ]
    shares = told(losses)
    if shares:
        each = listed(f"{losses.labels[m]} {shown(one, 2)}" for m, one in shares.items())
        words.append(f"Share of it that memories of equal size recover: {each}.")
    failed = [losses.labels[m] for m in losses.remembering if m not in losses.ranked]
    if failed:
        words[-1] += f" Not ranked: {listed(failed)} did not beat counted pairs of {losses.unit}."
    older = _older(losses)
    if older:
        each = listed(f"{losses.labels[m]} {shown(one, 2)}" for m, one in older.items())
        words.append(
            f"With another passage's state beyond the cache, so much of it is lost: {each}."
        )
    return words


def share_figure(losses: Losses) -> Figure:
    """Every memory between floor and ceiling."""
    shares = told(losses)
    labels = [losses.labels[model] for model in shares]
    return Figure(
        "Share of the recoverable gain",
        bars(
            [estimated("share", labels, list(shares.values()))],
            "",
            "share of the gain",
            references=[Reference(0, "no memory"), Reference(1, "full attention")],
        ),
        "(floor − memory) / (floor − ceiling), of the loss on books that were held out: 0 is no "
        f"memory, 1 full attention. {_LINE}",
        [
            {"model": label, **share.cells("share of the gain")}
            for label, share in zip(labels, shares.values(), strict=True)
        ],
    )


def section(losses: Losses) -> Section:
    """The shares as a table, over the reading, and by age of what they hang on."""
    shares, older = told(losses), _older(losses)
    rows: list[list[Cell]] = [
        [
            losses.labels[model],
            round(float(losses.nats_per_token(model).mean()), 4),
            round(losses.nats * losses.gain(model, losses.all).mean, 4),
            *_cells(shares.get(model)),
            *_cells(older.get(model)),
        ]
        for model in [CEILING, *shares]
    ]
    columns = [
        "model", "nats per token", "saved", "share", "low", "high",
        "older than the cache", "its low", "its high",
    ]  # fmt: skip
    table = Table(
        "Recovered of what there is to gain",
        columns,
        rows,
        "saved: nats per token against no memory. Older than the cache: what an exchange of all "
        f"that is older than a model's cache (full attention: than {losses.result.recent} "
        f"{losses.unit}) for another passage's costs, in shares of the gain after "
        f"{losses.warm_from:,} {losses.unit}. Low and high: 95 % of {DRAWS} bootstrap draws.",
    )
    return Section("What a memory recovers", [_rule(), *_over_reading(losses, shares), table])


def _rule() -> str:
    return (
        "Floor: no memory. Ceiling: full attention. A memory's share is (floor − memory) / (floor "
        f"− ceiling); it is told only where the ceiling surely saves {RECOVERABLE:g} nats per "
        "token and where all three have passed the gate."
    )


def _over_reading(losses: Losses, shares: dict[str, Estimate]) -> list[Figure]:
    """The share in every stretch of the reading in which there is enough to gain."""
    stretches = [
        k
        for k in range(len(losses.ends))
        if losses.nats * losses.gain(CEILING, losses.only(k)).low >= RECOVERABLE
    ]
    if not stretches or not shares:
        return []
    ends = [losses.ends[k] for k in stretches]
    series: list[Series] = []
    data: list[dict[str, Cell]] = []
    for style, model in enumerate(shares):
        each = [losses.share(model, losses.only(k)) for k in stretches]
        series.append(estimated(losses.labels[model], ends, each, style))
        data += [
            {
                "model": losses.labels[model],
                f"{losses.unit} read": end,
                **one.cells("share of the gain"),
            }
            for end, one in zip(ends, each, strict=True)
        ]
    return [
        Figure(
            f"Share of the gain against {losses.unit} read",
            lines(
                series,
                f"{losses.unit} read, up to",
                "share of the gain",
                log_x=True,
                references=[Reference(1, "full attention")],
            ),
            "In stretches of the reading in which full attention surely saves "
            f"{RECOVERABLE:g} nats per token. Band: 95 % of {DRAWS} bootstrap draws of seeds and "
            "passages.",
            data,
        )
    ]


def _older(losses: Losses) -> dict[str, Estimate]:
    models = [CEILING, *told(losses)]
    return {m: losses.older_share(m) for m in models if losses.has(m, "older shuffled")}


def _cells(one: Estimate | None) -> list[Cell]:
    if one is None or not math.isfinite(one.mean):
        return [None] * 3
    return [round(value, 3) for value in (one.mean, one.low, one.high)]
