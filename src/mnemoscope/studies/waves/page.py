"""The page of the study `waves`: every figure and sentence is computed from its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mnemoscope.core.arrays import Floats
from mnemoscope.lenses.heads.page import slid
from mnemoscope.lenses.spectrum.summary import LEAST_SHARE
from mnemoscope.lenses.waves.claims import lost_to_blocks, lost_to_norms
from mnemoscope.lenses.waves.page import CONTROLS, sections
from mnemoscope.lenses.waves.summary import BandFilters
from mnemoscope.plots.figure import Plot, bars, lines
from mnemoscope.report.claims import Claim, claims_table, span
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.curves import curves_figure
from mnemoscope.studies.findings import lead
from mnemoscope.studies.sentences import band, banded
from mnemoscope.studies.waves.claims import claims, most
from mnemoscope.studies.waves.finding import sentences
from mnemoscope.studies.waves.result import OBJECTIVES, QUERIES, Checkpoint, WavesResult

# What rows of curves are of, and what is counted.
NAMED = ("positions", "training")
BAND = "Line: mean over seeds; band: lowest to highest."


def page(result: WavesResult) -> list[Section]:
    """Build the sections of the page."""
    told = claims(result)
    found = lead(sentences(result, told), _relative_scores(result, "MLM"))
    parts = [found, *([_claims(result, told)] if told else []), _training(result)]
    parts += [_shapes(result), *_survival(result), _filters(result), _models(result)]
    if result.real is not None:
        parts += sections(result.real, result.real.model)
    return parts


def _claims(result: WavesResult, told: Sequence[Claim]) -> Section:
    return Section(
        "What was seen",
        [
            f"The models are {result.width} wide with {result.layers} layers of "
            f"{result.heads} heads, read {result.length} tokens and learnt for "
            f"{result.steps} steps, {result.seeds} seeds each.",
            claims_table("Expectations", told),
        ],
    )


def _over_steps(
    result: WavesResult,
    objective: str,
    titles: tuple[str, str],
    caption: str,
    value: Callable[[Checkpoint], float],
    **how: Any,
) -> Figure:
    """A number of every model against the step at which it was measured."""
    drawn = []
    for style, kind in enumerate(result.positions):
        runs = [one.checkpoints for one in result.examined(objective, kind)]
        steps = [one.step for one in runs[0]]
        values = np.array([[value(one) for one in run] for run in runs])
        drawn.append(banded(kind, steps, values, ("step", "value"), NAMED, style))
    name = f"{titles[0]} while training, {objective}"
    return curves_figure(name, drawn, ("step", titles[1]), f"{BAND} {caption}", **how)


def _relative_scores(result: WavesResult, objective: str) -> Figure:
    return _over_steps(
        result,
        objective,
        ("Relative scores", "share of score energy, strongest head"),
        "How much of the strongest head's scores depends on i − j alone.",
        most,
        y_range=(0, 1),
    )


def _sharpness(result: WavesResult, objective: str) -> Figure:
    return _over_steps(
        result,
        objective,
        ("Sharpness of waves", "sharpness at the embeddings"),
        "The strongest frequency's power over the mean; 1 where positions explain less than a "
        "hundredth of the variance. Sinusoids are many frequencies by design.",
        lambda one: one.sharpness[0] if one.share[0] > LEAST_SHARE else 1.0,
    )


def _training(result: WavesResult) -> Section:
    # Relative scores of MLMs lead the page.
    drawn = [_relative_scores(result, "LM"), *(_sharpness(result, one) for one in OBJECTIVES)]
    return Section("While they learn", drawn)


def _shapes(result: WavesResult) -> Section:
    """Spectra and attention by offset, with a slider over training steps."""
    drawn = [draw(result, one) for one in OBJECTIVES for draw in (_spectrum, _attention)]
    return Section(
        "Waves and attention, step by step",
        [f"Drag the slider to see waves come up. {BAND}", *drawn],
    )


def _spectrum(result: WavesResult, objective: str) -> Figure:
    def curve(seen: Sequence[Checkpoint]) -> tuple[ArrayLike, Floats]:
        return seen[0].frequencies, np.array([_query_share(one) for one in seen])

    return _step_by_step(
        result,
        ("Spectrum of first queries", objective),
        "Layer 0, share of the variance of all queries that positions explain at a frequency.",
        curve,
        {"frequency": "cycles per token", "share": "share of query variance"},
        top=0.6,
    )


def _query_share(seen: Checkpoint) -> Floats:
    """Share of the variance of all first queries that positions explain, by frequency, (F,)."""
    power = np.maximum(seen.queries, 0)
    share = max(seen.share[seen.sites.index(QUERIES)], 0)
    found: Floats = power * share / max(float(power.sum()), 1e-300)
    return found


def _attention(result: WavesResult, objective: str) -> Figure:
    def curve(seen: Sequence[Checkpoint]) -> tuple[ArrayLike, Floats]:
        mean = np.array([one.attention for one in seen])
        known = np.isfinite(mean).all(0)
        return np.array(seen[0].offsets)[known], mean[:, known]

    return _step_by_step(
        result,
        ("Attention of the strongest head", objective),
        "Mean attention by offset of the head whose scores depend most on i − j.",
        curve,
        {"offset": "offset i − j (positive = back)", "attention": "mean attention"},
        top=1,
    )


def _step_by_step(
    result: WavesResult,
    name: tuple[str, str],
    caption: str,
    curve: Callable[[Sequence[Checkpoint]], tuple[ArrayLike, Floats]],
    axes: dict[str, str],
    top: float,
) -> Figure:
    """``curve`` gives x and (trainings, x) of a kind of positions at one step; axes have titles."""
    shown = {kind: result.examined(name[1], kind) for kind in result.positions}
    steps = [one.step for one in next(iter(shown.values()))[0].checkpoints]
    figures: dict[str, Plot] = {}
    rows: list[dict[str, Cell]] = []
    x, y = axes
    for number, step in enumerate(steps):
        drawn = [
            banded(kind, *curve([one.checkpoints[number] for one in runs]), (x, y), NAMED, style)
            for style, (kind, runs) in enumerate(shown.items())
        ]
        figures[str(step)] = lines([one for one, _ in drawn], axes[x], axes[y], y_range=(0, top))
        rows += [{"step": step, **row} for _, more in drawn for row in more]
    return Figure(", ".join(name), slid(figures, "step"), caption, rows)


def _filters(result: WavesResult) -> Section:
    parts: list[str | Figure | Table] = [
        "A band of periods is taken off the mean queries and keys of all layers; what words bring "
        f"stays. The control: {CONTROLS[_some_filters(result).control]}"
    ]
    for objective in OBJECTIVES:
        series, said = [], []
        rows: list[dict[str, Cell]] = []
        for style, kind in enumerate(result.positions):
            found = [one.final.filters for one in result.examined(objective, kind)]
            names = found[0].bands
            stop = np.array([one.change["stop"] for one in found])
            control = np.array([one.change[one.control] for one in found])
            series.append(band(kind, names, stop, style))
            worst = int(stop.mean(0)[:-1].argmax())
            said.append(
                f"{kind} {stop.mean(0)[-1]:+.2f} (most by periods {names[worst]}: "
                f"{stop.mean(0)[worst]:+.2f}, control {control.mean(0)[worst]:+.2f})"
            )
            rows += [
                {
                    "positions": kind, "training": t, "period": band,
                    "stop": float(stop[t, b]), found[t].control: float(control[t, b]),
                }
                for t in range(len(stop))
                for b, band in enumerate(names)
            ]  # fmt: skip
        parts += [
            f"{objective}, nats added when all waves are taken out: {'; '.join(said)}.",
            Figure(
                f"Loss without a band, {objective}",
                bars(series, "period in tokens", "loss added, nats"),
                "Bar: mean over seeds, whisker: lowest to highest.",
                rows,
            ),
        ]
    return Section("Bands taken out", parts)


def _some_filters(result: WavesResult) -> BandFilters:
    return result.examined(OBJECTIVES[0], result.positions[0])[0].final.filters


def _survival(result: WavesResult) -> list[Section]:
    """Does S break the waves, or does the model discard them?"""
    rows: list[list[Cell]] = []
    for objective in OBJECTIVES:
        for kind in result.positions:
            whole = [one.final for one in result.examined(objective, kind)]
            whole = [one for one in whole if one.propagation and one.norm_fits]
            if not whole:
                continue
            rows.append(
                [
                    objective,
                    kind,
                    span([min(n.measured for n in one.norm_fits) for one in whole]),
                    span([min(n.constant for n in one.norm_fits) for one in whole]),
                    span([1 - lost_to_norms(one) for one in whole]),
                    span([1 - lost_to_blocks(one) for one in whole]),
                    span([one.propagation[-1].share for one in whole if one.propagation]),
                ]
            )
    told = Section(
        "What survives on the way up",
        [
            "A norm divides every token by its own std (S) and scales every column (L). Does S "
            "break the waves on the way up, or does the model discard them?",
            Table(
                "S or the model",
                [
                    "objective", "positions", "R² by S and L, worst norm", "R² by L alone",
                    "whole after S", "left by the model", "share of variance on top",
                ],
                rows,
                "R² of what norms give from what they are given, by position. Whole after S: "
                "share of the energy of the position embeddings that is still in its shape where S "
                "varies most. Left by the model: energy of what norms carry to the top that is "
                "there; above 1, attention and feed-forward parts add to it. Mean and range over "
                "seeds.",
            ),
        ],
    )  # fmt: skip
    return [told] if rows else []


def _models(result: WavesResult) -> Section:
    rows: list[list[Cell]] = []
    for objective in OBJECTIVES:
        for kind in result.positions:
            whole = result.examined(objective, kind)
            last = [one.last for one in whole]
            rows.append(
                [
                    objective,
                    kind,
                    float(np.mean([one.loss for one in last if one.loss is not None])),
                    float(np.mean([most(one) for one in last])),
                    ", ".join(f"{one.at_strongest(one.favourite):.0f}" for one in last),
                    ", ".join(f"{one.at_strongest(one.delay):.1f}" for one in last),
                    float(np.mean([one.seconds for one in whole])),
                    len(result.of(objective, kind)) - len(whole),
                ]
            )
    return Section(
        "The models",
        [
            Table(
                "What was trained",
                [
                    "objective", "positions", "validation loss", "relative, strongest head",
                    "its favourite offset", "its delay", "training s", "diverged",
                ],
                rows,
                "Means over seeds; offset and delay seed by seed. Losses of LM and MLM are of "
                "different questions.",
            ),
        ],
    )  # fmt: skip
