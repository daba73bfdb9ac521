"""The page of the study `waves`: every figure and sentence is computed from its result."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mnemoscope.lenses.heads.page import slid
from mnemoscope.lenses.spectrum.summary import LEAST_SHARE
from mnemoscope.lenses.waves.page import sections
from mnemoscope.plots.figure import Series, bars, lines
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.sentences import band
from mnemoscope.studies.waves.claims import claims, most
from mnemoscope.studies.waves.result import OBJECTIVES, Checkpoint, WavesResult


def page(result: WavesResult) -> list[Section]:
    """Build the sections of the page."""
    parts = [_claims(result), _training(result), _shapes(result), _filters(result), _models(result)]
    if result.real is not None:
        parts += sections(result.real, result.real.model)
    return parts


def _claims(result: WavesResult) -> Section:
    rows = claims(result)
    seen = sum(row[1].startswith("seen") for row in rows)
    unclear = sum(row[1].startswith("unclear") for row in rows)
    return Section(
        "What was seen",
        [
            f"Of {len(rows)} things to expect after Yamamoto and Matsuzaki (2023), {seen} were "
            f"seen, {unclear} in some trainings only, {len(rows) - seen - unclear} in none. The "
            f"models are {result.width} wide with {result.layers} layers of "
            f"{result.heads} heads, read {result.length} tokens and learnt for "
            f"{result.steps} steps, {result.seeds} seeds each.",
            Table(
                "Expectations",
                ["expected", "here", "numbers"],
                rows,
                "Seen means in every training that it speaks of. Waves stand out when they are "
                "sharper than every shuffle of the positions and than the words, and positions "
                "explain more than one hundredth of the variance.",
            ),
        ],
    )


def _over_steps(
    result: WavesResult, objective: str, value: Callable[[Checkpoint], float]
) -> tuple[list[Series], list[dict[str, Cell]]]:
    series: list[Series] = []
    rows: list[dict[str, Cell]] = []
    for style, kind in enumerate(result.positions):
        runs = [one.checkpoints for one in result.examined(objective, kind)]
        steps = [one.step for one in runs[0]]
        values = np.array([[value(one) for one in run] for run in runs])
        series.append(
            Series(
                kind, steps, np.nanmean(values, 0), np.nanmin(values, 0), np.nanmax(values, 0),
                style=style,
            )
        )  # fmt: skip
        rows += [
            {"positions": kind, "training": t, "step": s, "value": float(v)}
            for t, run in enumerate(values)
            for s, v in zip(steps, run, strict=True)
        ]
    return series, rows


def _training(result: WavesResult) -> Section:
    band = "Line: mean over seeds; band: lowest to highest."
    parts: list[str | Figure | Table] = []
    for objective in OBJECTIVES:
        series, rows = _over_steps(result, objective, most)
        parts.append(
            Figure(
                f"Relative scores while training, {objective}",
                lines(series, "step", "share of score energy, strongest head", y_range=(0, 1)),
                f"{band} How much of the strongest head's scores depends on i − j alone.",
                rows,
            )
        )
        series, rows = _over_steps(
            result, objective, lambda one: one.sharpness[0] if one.share[0] > LEAST_SHARE else 1.0
        )
        parts.append(
            Figure(
                f"Sharpness of waves while training, {objective}",
                lines(series, "step", "sharpness at the embeddings"),
                f"{band} The strongest frequency's power over the mean; 1 where positions explain "
                "less than a hundredth of the variance. Sinusoids are many frequencies by design.",
                rows,
            )
        )
    return Section("While they learn", parts)


def _shapes(result: WavesResult) -> Section:
    """Spectra and attention by offset, with a slider over training steps."""
    parts: list[str | Figure | Table] = [
        "Drag the slider to see waves come up. The first training of every kind is shown."
    ]
    for objective in OBJECTIVES:
        shown = {kind: result.examined(objective, kind)[0].checkpoints for kind in result.positions}
        steps = [one.step for one in next(iter(shown.values()))]
        spectra, offsets = {}, {}
        rows: list[dict[str, Cell]] = []
        turns: list[dict[str, Cell]] = []
        for number, step in enumerate(steps):
            waves, attention = [], []
            for style, (kind, run) in enumerate(shown.items()):
                seen = run[number]
                at = seen.sites.index("layer.0.attention.q")
                power = np.maximum(seen.power[at], 0) * max(seen.share[at], 0)
                power = power / max(float(np.sum(np.maximum(seen.power[at], 0))), 1e-300)
                waves.append(Series(kind, seen.frequencies, power, style=style))
                rows += [
                    {"step": step, "positions": kind, "frequency": f, "share": float(p)}
                    for f, p in zip(seen.frequencies, power, strict=True)
                ]
                mean = np.array(seen.measured)[seen.strongest]
                known = np.isfinite(mean)
                far = np.array(seen.offsets)[known]
                attention.append(Series(kind, far, mean[known], style=style))
                turns += [
                    {"step": step, "positions": kind, "offset": o, "attention": float(a)}
                    for o, a in zip(far, mean[known], strict=True)
                ]
            title = "share of query variance"
            spectra[str(step)] = lines(waves, "cycles per token", title, y_range=(0, 0.6))
            offsets[str(step)] = lines(
                attention, "offset i − j (positive = back)", "mean attention", y_range=(0, 1)
            )
        parts += [
            Figure(
                f"Spectrum of first queries, {objective}",
                slid(spectra, "step"),
                "Layer 0, share of the variance of all queries that positions explain at a "
                "frequency.",
                rows,
            ),
            Figure(
                f"Attention of the strongest head, {objective}",
                slid(offsets, "step"),
                "Mean attention by offset of the head whose scores depend most on i − j.",
                turns,
            ),
        ]
    return Section("Waves and attention, step by step", parts)


def _filters(result: WavesResult) -> Section:
    parts: list[str | Figure | Table] = [
        "A band of periods is taken off the mean queries and keys of all layers; what words bring "
        "stays. The control takes the same values off at other positions."
    ]
    for objective in OBJECTIVES:
        series, said = [], []
        rows: list[dict[str, Cell]] = []
        for style, kind in enumerate(result.positions):
            found = [one.final.filters for one in result.examined(objective, kind)]
            names = found[0].bands
            stop = np.array([one.change["stop"] for one in found])
            control = np.array([one.change["shuffled"] for one in found])
            series.append(band(kind, names, stop, style))
            worst = int(stop.mean(0)[:-1].argmax())
            said.append(
                f"{kind} {stop.mean(0)[-1]:+.2f} (most by periods {names[worst]}: "
                f"{stop.mean(0)[worst]:+.2f}, control {control.mean(0)[worst]:+.2f})"
            )
            rows += [
                {
                    "positions": kind, "training": t, "period": band,
                    "stop": float(stop[t, b]), "shuffled": float(control[t, b]),
                }
                for t in range(len(stop))
                for b, band in enumerate(names)
            ]  # fmt: skip
        parts += [
            f"{objective}, nats added when all waves are taken out: {'; '.join(said)}.",
            Figure(
                f"What a band is worth, {objective}",
                bars(series, "period in tokens", "loss added, nats"),
                "Bar: mean over seeds, whisker: lowest to highest.",
                rows,
            ),
        ]
    return Section("Bands taken out", parts)


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
