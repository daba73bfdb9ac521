"""The section on the heads of one model: scores by offset, delays, score decomposition."""

from __future__ import annotations

from typing import Any

import numpy as np

from mnemoscope.lenses.heads.summary import HeadsSummary, RotaryShares
from mnemoscope.lenses.lens import Part, Records, records
from mnemoscope.plots.figure import Plot, Series, bars, heatmap, lines
from mnemoscope.plots.images import slider
from mnemoscope.report.document import Figure, Section, Table


def named(title: str, name: str, between: str = ", ") -> str:
    """A title that tells models apart, if there are several."""
    return f"{title}{between}{name}" if name else title


def slid(figures: dict[str, Plot], title: str) -> Plot:
    """A slider far enough below to leave room for the title of the axis."""
    figure = slider(figures, title)
    figure.layout.sliders[0].pad.t = 64
    figure.update_layout(height=figure.layout.height + 32)
    return figure


def heads_section(seen: HeadsSummary, name: str) -> Section:
    """Where heads attend, and how far positions say so."""
    relative, null = np.array(seen.relative), np.array(seen.relative_null)
    fit, delay = np.array(seen.fit), np.array(seen.delay)
    favourite = np.array(seen.favourite)
    layers, heads = relative.shape
    best = seen.strongest
    rho, chance, _ = seen.agreement
    sure, luck, count = seen.coherent_agreement
    said = [
        f"Of the energy of row-centred scores, a function of i − j explains "
        f"{relative.mean():.2f} in the mean over {relative.size} heads (scores of each row "
        f"shuffled: {null.mean():.3f}), most in layer {best[0]}, head {best[1]}: "
        f"{relative[best]:.2f}.",
        f"What positions alone would score predicts where heads attend better than equal scores do "
        f"(R² above 0) in {int((fit > 0).sum())} heads, well (above 0.5) in "
        f"{int((fit > 0.5).sum())}. The delay of the waves and the offset that attention favours "
        f"have a rank correlation of {rho:.2f} over heads (as large by chance in {chance:.4f} of "
        f"shuffles); over the {count} heads with a coherence of at least one half, {sure:.2f} "
        f"({luck:.4f}). A delay is known up to a whole period; the offset at which the waves match "
        f"best, all frequencies together, has {seen.lag_agreement[0]:.2f} "
        f"({seen.lag_agreement[1]:.4f}).",
    ]
    if seen.shared > 1:
        said.append(f"{seen.shared} heads share one key each.")
    if seen.without:
        said.append(f"No singular vectors are shown: {seen.without}.")
    parts: list[Part] = [*said]
    parts.append(
        Figure(
            named("Scores that depend on the offset", name),
            heatmap(
                relative, list(range(heads)), list(range(layers)), "head", "layer",
                "share of score energy", z_range=(0, 1),
            ),
            f"Null, scores of each row shuffled: {null.mean():.3f} in the mean, at most "
            f"{null.max():.3f}.",
            _table(seen),
        )
    )  # fmt: skip
    scatter = lines(
        [
            Series(f"layer {n}", favourite[n], delay[n], style=n)
            for n in range(layers)
            if np.isfinite(delay[n]).any()
        ],
        "offset with most attention above flat",
        "delay of the waves, tokens",
    )
    scatter.update_traces(mode="markers")
    scatter.update_layout(hovermode="closest")
    parts.append(
        Figure(
            named("Delay against attention", name),
            scatter,
            "One mark a head. A positive offset attends back. A delay is at most half a period.",
            _by_head(seen, {"favourite": favourite, "delay": delay}),
        )
    )
    parts += _curves(seen, name)
    parts.append(_decomposition(seen, name))
    if seen.rotary is not None:
        parts += _rotary(seen, seen.rotary, name)
    if seen.paper:
        parts.append(_paper(seen, name))
    return Section(named("Heads", name, ": "), parts)


def _table(seen: HeadsSummary) -> Records:
    keys = ["relative", "relative_null", "position_relative", "delay", "lag", "coherence"]
    keys += ["coherence_null", "favourite", "fit"]
    return _by_head(seen, {key: getattr(seen, key) for key in keys})


def _by_head(seen: HeadsSummary, columns: dict[str, Any]) -> Records:
    layers, heads = np.shape(seen.relative)
    return records({"layer": range(layers), "head": range(heads)}, columns)


def _curves(seen: HeadsSummary, name: str) -> list[Figure]:
    """Curves and attention by offset of the strongest heads, chosen by a slider."""
    order = np.argsort(-np.array(seen.relative).ravel(), kind="stable")[:12]
    width = len(seen.relative[0])
    shown: dict[str, Plot] = {}
    rows: Records = []
    for number in order.tolist():
        n, h = divmod(number, width)
        known = [i for i, v in enumerate(seen.measured[n][h]) if v == v]
        offsets = [seen.offsets[i] for i in known]
        curves = {
            f"measured (R² of predicted {seen.fit[n][h]:.2f})": seen.measured[n][h],
            "predicted": seen.predicted[n][h],
            "all scores equal": seen.flat[n],
        }
        shown[f"{n}.{h}"] = lines(
            [Series(k, offsets, [v[i] for i in known]) for k, v in curves.items()],
            "offset i − j (positive = back)",
            "mean attention",
        )
        rows += [
            {
                "layer": n, "head": h, "offset": o, "measured": seen.measured[n][h][i],
                "predicted": seen.predicted[n][h][i], "flat": seen.flat[n][i],
            }
            for i, o in zip(known, offsets, strict=True)
        ]  # fmt: skip
    figures = [
        Figure(
            named("Attention by offset", name),
            slid(shown, "layer.head:"),
            "Measured: mean over texts, among positions of text. Predicted: from the part of the "
            "position scores that depends on i − j, words left out.",
            rows,
        )
    ]
    curves_of: dict[str, Plot] = {}
    rows = []
    for one in seen.components:
        at = np.arange(len(one.left[0]))
        series = [  # periods of the strongest wave, in tokens
            Series(
                f"{side} {j + 1}, period {one.periods[number][j]:.3g}", at, curves[j],
                style=2 * j + number,
            )
            for j in range(len(one.left))
            for number, (side, curves) in enumerate({"left": one.left, "right": one.right}.items())
        ]  # fmt: skip
        curves_of[f"{one.layer}.{one.head}"] = lines(series, "position", "component")
        rows += [
            {"layer": one.layer, "head": one.head, "part": s.name, "position": p, "value": v}
            for s in series
            for p, v in enumerate(np.asarray(s.y).tolist())
        ]
    if curves_of:
        figures.append(
            Figure(
                named("Singular components", name),
                slid(curves_of, "layer.head:"),
                "The two components with the strongest position scores, means over texts: left = "
                "what the query looks for, right = what the key shows. A right curve that "
                "comes k tokens before its left one attends k tokens back.",
                rows,
            )
        )
    return figures


def _decomposition(seen: HeadsSummary, name: str) -> Figure:
    layers = [f"layer {n}" for n in range(len(seen.relative))]
    series = [
        Series(
            term, layers, np.mean(values, axis=1), np.min(values, axis=1), np.max(values, axis=1)
        )
        for term, values in seen.terms.items()
    ]
    return Figure(
        named("What scores are made of", name),
        bars(series, "", "share of score energy"),
        "Query part first, key part second. Bar: mean over heads, whisker: lowest to highest. "
        "Constant: what all queries have in common, biases included. Terms overlap, so shares need "
        "not sum to one.",
        [
            {"layer": n, "term": term, "head": h, "share": float(v)}
            for term, values in seen.terms.items()
            for n, row in enumerate(values)
            for h, v in enumerate(row)
        ],
    )


def _rotary(seen: HeadsSummary, turned: RotaryShares, name: str) -> list[Part]:
    with_it, without = np.array(seen.relative), np.array(turned.relative)
    share = np.array(turned.share).mean(1)  # (L, P)
    labels = ["∞" if p is None else f"{p:.3g}" for p in turned.periods]
    return [
        f"Rotary positions turn queries and keys after W_Q and W_K. Without them a function of "
        f"i − j would explain {without.mean():.3f} of the score energy in the mean over heads "
        f"(shuffled: {np.mean(turned.null):.3f}), with them {with_it.mean():.3f}.",
        Figure(
            named("Scores by rotary pair", name),
            heatmap(
                share, labels, [f"layer {n}" for n in range(len(share))],
                "period of the pair, tokens", "", "share of change with offset",
            ),
            "How much each pair of columns that turn together changes the mean score with the "
            "offset; mean over heads.",
            records({"layer": range(len(share)), "period": labels}, {"share": share}),
        ),
    ]  # fmt: skip


def _paper(seen: HeadsSummary, name: str) -> Table:
    rows = [
        [
            one.layer, one.head, float(np.median(one.shifts)),
            float(np.ptp(one.shifts)), seen.delay[one.layer][one.head],
            seen.favourite[one.layer][one.head],
        ]
        for one in seen.paper
    ]  # fmt: skip
    return Table(
        named("The paper's R beside the delay", name),
        ["layer", "head", "shift by R", "spread over bases", "delay", "offset of attention"],
        rows,
        "R = U_Qᵀ U_K needs a basis of all that W_Q W_Kᵀ does not see; turning that basis changes "
        "no score, but moves the shift by the spread shown. The delay depends on scores only.",
    )
