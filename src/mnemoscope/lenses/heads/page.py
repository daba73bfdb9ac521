"""The section on the heads of one model: scores by offset, delays, score decomposition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.lenses.heads.summary import SHOWN, HeadsSummary, RotaryShares, strongest
from mnemoscope.lenses.lens import Part, Records, records
from mnemoscope.plots.figure import Plot, Series, bars, heatmap, lines
from mnemoscope.plots.images import slider
from mnemoscope.report.claims import Claim, claims_table
from mnemoscope.report.document import Figure, Section, Table, finding

# Least shares of score energy, R² and rank correlation that count; more luck than this does not.
LEAST_RELATIVE, LEAST_FIT, LEAST_RANK, LUCK = 0.1, 0.5, 0.3, 0.05
RELATIVE = "Scores that depend on the offset"
# Pixels of a figure that is to be seen below three sentences.
TALLEST = 350


def slid(figures: dict[str, Plot], title: str) -> Plot:
    """A slider far enough below to leave room for the title of the axis."""
    figure = slider(figures, title)
    figure.layout.sliders[0].pad.t = 64
    figure.update_layout(height=figure.layout.height + 32)
    return figure


def by_head(values: Floats, title: str) -> Plot:
    """Numbers from 0 to 1, (L, H), as a picture: layers down, heads across."""
    layers, heads = map(range, np.shape(values))
    return heatmap(values, heads, layers, "head", "layer", title, z_range=(0, 1))


def by_offset(offsets: Floats, curves: Mapping[str, Floats]) -> Plot:
    """Mean attention of one head by offset, (R,) by name, where anything can be seen."""
    known = np.isfinite(next(iter(curves.values())))
    series = [Series(name, offsets[known], values[known]) for name, values in curves.items()]
    return lines(series, "offset i − j (positive = back)", "mean attention")


def along_positions(of: Mapping[str, Any], series: list[Series], label: str) -> Records:
    """Rows of curves over positions: which head, the name of a curve, position and value."""
    return [
        {**of, label: one.name, "position": position, "value": value}
        for one in series
        for position, value in enumerate(np.asarray(one.y).tolist())
    ]


def relative_sentences(seen: HeadsSummary) -> list[str]:
    """How far scores depend on the distance, where the strongest head attends, and why."""
    relative, null = seen.relative, seen.relative_null
    n, h = seen.strongest
    above = int((relative - null >= LEAST_RELATIVE).sum())
    most = (
        f"The distance i − j explains {relative[n, h]:.2f} of the score energy of layer {n}, head "
        f"{h} (scores shuffled: {null[n, h]:.3f})"
    )
    if above:
        said = f"{most}, and at least {LEAST_RELATIVE:g} in {above} of {relative.size} heads."
    elif relative[n, h] > null.max():
        said = f"{most}, and in no head as much as the {LEAST_RELATIVE:g} that counts."
    else:
        said = f"{most}: no head is distinguishable from shuffled scores."
    offset = int(seen.favourite[n, h])
    at = int(np.flatnonzero(seen.offsets == offset)[0])
    tokens = f"{abs(offset)} token{'s' if abs(offset) > 1 else ''}"
    where = f"{tokens} {'back' if offset > 0 else 'ahead'}" if offset else "to the token itself"
    fit = seen.fit[n, h]
    return [
        said,
        f"Compared with equal scores, that head attends most {where}: "
        f"{seen.measured[n, h, at]:.2f} of its attention against {seen.flat[n, at]:.2f}.",
        f"Positions alone predict its attention by distance with an R² of {fit:.2f} (0 is as good "
        "as equal scores)."
        if fit > 0
        else f"Positions alone predict its attention by distance no better than equal scores do "
        f"(R² {fit:.2f}).",
    ]


def led(sections: Sequence[Section], name: str, sentences: Sequence[str]) -> list[Section]:
    """A page that leads with sentences and the figure of that name, taken out of its section."""
    figures = [part for one in sections for part in one.parts if isinstance(part, Figure)]
    lead = next(figure for figure in figures if figure.name == name)
    lead.figure.update_layout(height=min(lead.figure.layout.height or TALLEST, TALLEST))
    rest = [
        Section(one.title, [part for part in one.parts if part is not lead]) for one in sections
    ]
    return [finding(*sentences, figure=lead), *rest]


def heads_section(seen: HeadsSummary) -> Section:
    """Where heads attend, and how far positions say so."""
    relative, null = seen.relative, seen.relative_null
    parts: list[Part] = [
        f"Of the energy of row-centred scores, a function of i − j explains {relative.mean():.2f} "
        f"in the mean over {relative.size} heads (scores of each row shuffled: {null.mean():.3f}). "
        f"What positions alone would score predicts where heads attend better than equal scores do "
        f"(R² above 0) in {int((seen.fit > 0).sum())} heads, well (above 0.5) in "
        f"{int((seen.fit > 0.5).sum())}.",
    ]
    if seen.shared > 1:
        parts.append(f"{seen.shared} heads share one key each.")
    if seen.without:
        parts.append(f"No singular vectors are shown: {seen.without}.")
    parts += [
        claims_table("What heads do", _claims(seen)),
        _relative(seen),
        _delays(seen),
        _attention(seen),
    ]
    if seen.components:
        parts.append(_components(seen))
    parts.append(_decomposition(seen))
    if seen.rotary is not None:
        parts += _rotary(seen, seen.rotary)
    if seen.paper:
        parts.append(_paper(seen))
    return Section("Heads", parts)


def _claims(seen: HeadsSummary) -> list[Claim]:
    relative = seen.at_strongest(seen.relative) - seen.at_strongest(seen.relative_null)
    found = [
        Claim("Scores of a head depend on i − j", [relative], LEAST_RELATIVE, "of their energy"),
        Claim("Positions alone predict where the strongest head attends",
              [seen.at_strongest(seen.fit)], LEAST_FIT, "R²"),
    ]  # fmt: skip
    for what, (rho, chance, count) in (
        ("delay of the waves ranks heads", seen.agreement),
        ("delay of the waves ranks coherent heads", seen.coherent_agreement),
        ("offset at which waves match best ranks heads", seen.lag_agreement),
    ):
        luck = f"as large by chance in {chance:.2f} of shuffles of {count} heads"
        found.append(
            Claim(f"The {what} as their attention does", [rho], LEAST_RANK, "rank correlation",
                  ceiling=luck if chance > LUCK else "")
        )  # fmt: skip
    return found


def _rows(seen: HeadsSummary, *keys: str) -> Records:
    """What every head has of the fields of that name."""
    layers, heads = map(range, seen.relative.shape)
    return records({"layer": layers, "head": heads}, {key: getattr(seen, key) for key in keys})


def _relative(seen: HeadsSummary) -> Figure:
    null = seen.relative_null
    return Figure(
        RELATIVE,
        by_head(seen.relative, "share of score energy"),
        f"Null, scores of each row shuffled: {null.mean():.3f} in the mean, at most "
        f"{null.max():.3f}.",
        _rows(
            seen, "relative", "relative_null", "position_relative", "delay", "lag", "coherence",
            "coherence_null", "favourite", "fit",
        ),
    )  # fmt: skip


def _delays(seen: HeadsSummary) -> Figure:
    scatter = lines(
        [
            Series(f"layer {n}", favourite, delay, style=n)
            for n, (favourite, delay) in enumerate(zip(seen.favourite, seen.delay, strict=True))
            if np.isfinite(delay).any()
        ],
        "offset with most attention above flat",
        "delay of the waves, tokens",
    )
    heads = [f"head {h}" for h in range(seen.delay.shape[1])]
    scatter.update_traces(
        mode="markers", text=heads, hovertemplate="%{text}: offset %{x:g}, delay %{y:.3g}"
    )
    scatter.update_layout(hovermode="closest")
    return Figure(
        "Delay against attention",
        scatter,
        "One mark a head. A positive offset attends back. A delay is known up to a whole period, "
        "and is at most half of one.",
        _rows(seen, "favourite", "delay"),
    )


def _attention(seen: HeadsSummary) -> Figure:
    """Attention by offset of the strongest heads, chosen by a slider."""
    shown: dict[str, Plot] = {}
    rows: Records = []
    for n, h in strongest(seen.relative, SHOWN):
        measured, predicted, flat = seen.measured[n, h], seen.predicted[n, h], seen.flat[n]
        title = f"measured (R² of predicted {seen.fit[n, h]:.2f})"
        curves = {title: measured, "predicted": predicted, "all scores equal": flat}
        shown[f"{n}.{h}"] = by_offset(seen.offsets, curves)
        known = np.isfinite(measured)
        rows += records(
            {"layer": [n], "head": [h], "offset": seen.offsets[known].tolist()},
            {"measured": measured[known], "predicted": predicted[known], "flat": flat[known]},
        )
    return Figure(
        "Attention by offset",
        slid(shown, "layer.head:"),
        "Measured: mean over texts, among positions of text. Predicted: from the part of the "
        "position scores that depends on i − j, words left out.",
        rows,
    )


def _components(seen: HeadsSummary) -> Figure:
    shown: dict[str, Plot] = {}
    rows: Records = []
    for one in seen.components:
        series = [  # periods of the strongest wave, in tokens
            Series(
                f"{side} {j + 1}, period {one.periods[number][j]:.3g}",
                np.arange(len(curves[j])), curves[j], style=2 * j + number,
            )
            for j in range(len(one.left))
            for number, (side, curves) in enumerate({"left": one.left, "right": one.right}.items())
        ]  # fmt: skip
        shown[f"{one.layer}.{one.head}"] = lines(series, "position", "component")
        rows += along_positions({"layer": one.layer, "head": one.head}, series, "part")
    return Figure(
        "Singular components",
        slid(shown, "layer.head:"),
        "The two components with the strongest position scores, means over texts: left = "
        "what the query looks for, right = what the key shows. A right curve that "
        "comes k tokens before its left one attends k tokens back.",
        rows,
    )


def _decomposition(seen: HeadsSummary) -> Figure:
    layers, heads = map(range, seen.relative.shape)
    labels = [f"layer {n}" for n in layers]
    return Figure(
        "What scores are made of",
        bars(
            [
                Series(term, labels, values.mean(1), values.min(1), values.max(1))
                for term, values in seen.terms.items()
            ],
            "",
            "share of score energy",
        ),
        "Query part first, key part second. Bar: mean over heads, whisker: lowest to highest. "
        "Constant: what all queries have in common, biases included. Terms overlap, so shares need "
        "not sum to one.",
        records(
            {"term": list(seen.terms), "layer": layers, "head": heads},
            {"share": list(seen.terms.values())},
        ),
    )


def _rotary(seen: HeadsSummary, turned: RotaryShares) -> list[Part]:
    share = turned.share.mean(1)  # (L, P)
    labels = ["∞" if p is None else f"{p:.4g}" for p in turned.periods]
    layers = range(len(share))
    return [
        f"Rotary positions turn queries and keys after W_Q and W_K. Without them a function of "
        f"i − j would explain {turned.relative.mean():.3f} of the score energy in the mean over "
        f"heads (shuffled: {turned.null.mean():.3f}), with them {seen.relative.mean():.3f}.",
        Figure(
            "Scores by rotary pair",
            heatmap(
                share, labels, [f"layer {n}" for n in layers],
                "period of the pair, tokens", "", "share of change with offset",
            ),
            "How much each pair of columns that turn together changes the mean score with the "
            "offset; mean over heads.",
            records({"layer": layers, "period": labels}, {"share": share}),
        ),
    ]  # fmt: skip


def _paper(seen: HeadsSummary) -> Table:
    rows = [
        [
            one.layer, one.head, float(np.median(one.shifts)), float(np.ptp(one.shifts)),
            float(seen.delay[one.layer, one.head]), float(seen.favourite[one.layer, one.head]),
        ]
        for one in seen.paper
    ]  # fmt: skip
    return Table(
        "The paper's R beside the delay",
        ["layer", "head", "shift by R", "spread over bases", "delay", "offset of attention"],
        rows,
        "R = U_Qᵀ U_K needs a basis of all that W_Q W_Kᵀ does not see; turning that basis changes "
        "no score, but moves the shift by the spread shown. The delay depends on scores only.",
    )
