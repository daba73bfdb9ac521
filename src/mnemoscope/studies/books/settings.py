"""With what models of the study `books` were compared: their rates, their sizes, their states."""

from __future__ import annotations

import numpy as np

from mnemoscope.report.document import Cell, Section, Table
from mnemoscope.studies.books.losses import Losses
from mnemoscope.studies.findings import listed
from mnemoscope.studies.rates import best_rate


def rates_tried(losses: Losses) -> list[Section]:
    """Which rates were tried, on what, and which was taken."""
    result = losses.result
    if not result.tried:
        return []
    rates = sorted({one.lr for one in result.tried})
    loss = {(one.model, one.lr): one.loss for one in result.tried}
    models = [model for model in result.models if (model, rates[0]) in loss]
    best = {model: best_rate(result.tried, model, rates[0]) for model in models}
    ends = (rates[0], rates[-1])
    edge = [result.models[model].label for model in models if best[model] in ends]
    words = (
        f"Every model was trained for {result.tried_steps:,} steps at each of {len(rates)} rates, "
        f"and read {listed(result.tuned)}, which no model was trained on and nothing else is "
        "reported of. The rate with the lowest loss was taken."
    )
    if edge and len(rates) > 1:
        words += f" At the edge of what was tried, so a better one may lie beyond: {listed(edge)}."
    table = Table(
        "Learning rates",
        ["model", *(f"{rate:g}" for rate in rates), "taken"],
        [
            [
                result.models[model].label,
                *(_finite(loss[model, rate]) for rate in rates),
                best[model],
            ]
            for model in models
        ],
        "Nats per token; empty where the training diverged.",
    )
    return [Section("How rates were chosen", [words, table])]


def _finite(loss: float) -> float | None:
    return round(loss, 4) if np.isfinite(loss) else None


def carried(losses: Losses) -> Section:
    """Parameters, measured state and time of every model."""
    models = {model: losses.result.models[model] for model in losses.models}
    state = {m: next(iter(losses.trials[m].values())).state_bytes for m in models}
    rows: list[list[Cell]] = [
        [
            one.label,
            one.parameters,
            state[model],
            one.mem_len,
            one.older,
            None if one.mlp_ratio is None else round(one.mlp_ratio, 3),
            round(float(np.mean([seed.seconds for seed in losses.trials[model].values()])), 1),
        ]
        for model, one in models.items()
    ]
    sizes = [one.parameters for one in models.values()]
    states = [state[model] for model in losses.remembering]
    words = f"All models have between {min(sizes):,} and {max(sizes):,} parameters"
    if states:
        words += f", and those with a memory carry between {min(states):,} and {max(states):,} "
        words += "bytes, measured at the end of the reading"
    words += (
        ". All have the same width; a memory that brings weights of its own pays for them with a "
        "thinner feed-forward layer."
    )
    other = [f"{one.label} {one.width}" for one in models.values() if one.mlp_ratio is None]
    if other:
        words += f" Without such a layer, and as wide as the parameters allow: {', '.join(other)}."
    columns = ["model", "parameters", "state bytes", "mem_len", "older", "mlp_ratio", "training s"]
    return Section(
        "What each carries",
        [
            words,
            Table(
                "Size of model and state",
                columns,
                rows,
                "State of one passage; mem_len and older: vectors a layer keeps of the last tokens "
                "and of what is older; mlp_ratio: width of the feed-forward layer, in widths. "
                "Training time of one model on one thread.",
            ),
        ],
    )
