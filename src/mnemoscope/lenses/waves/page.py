"""Sections on the position waves of one model: every sentence is computed from what was seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mnemoscope.lenses.heads.page import heads_section, named, slid
from mnemoscope.lenses.waves.summary import WavesSummary
from mnemoscope.plots.figure import Reference, Series, bars, heatmap, lines
from mnemoscope.report.document import Figure, Section, Table

if TYPE_CHECKING:
    import plotly.graph_objects as go

Floats = NDArray[np.float64]


def sections(seen: WavesSummary, name: str = "") -> list[Section]:
    """All that is shown of one model; on a page of several, ``name`` keeps them apart."""
    return [
        _spectra(seen, name),
        heads_section(seen, name),
        _directions(seen, name),
        _survival(seen, name),
        _filters(seen, name),
    ]


def _few_ticks(figure: go.Figure, labels: list[str]) -> go.Figure:
    """Write a few of many frequencies, flat."""
    step = max(1, len(labels) // 8)
    figure.update_xaxes(tickmode="array", tickvals=labels[::step], tickangle=0)
    return figure


def _spectra(seen: WavesSummary, name: str) -> Section:
    sites = seen.sites
    found = seen.with_waves
    first = sites.index(found[0]) if found else 0
    said = (
        f"Waves stand out at {len(found)} of {len(sites)} sites"
        + (f": {', '.join(found)}. " if len(found) < len(sites) else ". ")
        + f"The strongest of {sites[first]} has a period of {1 / seen.peak[first]:.1f} tokens "
        f"and {seen.sharpness[first]:.1f} times the mean power (words "
        f"{seen.words_sharpness[first]:.1f}, shuffled positions at most "
        f"{seen.sharpness_null[first]:.1f})."
        if found
        else "No site has waves that stand out from words and from shuffled positions."
    )
    rows = [
        [
            site,
            1 / seen.peak[s] if seen.peak[s] == seen.peak[s] else None,
            seen.sharpness[s],
            seen.sharpness_null[s],
            seen.words_sharpness[s],
            seen.share[s],
        ]
        for s, site in enumerate(sites)
    ]
    power = np.maximum(np.array(seen.power), 0)
    power = power / np.maximum(power.sum(1, keepdims=True), 1e-300)
    axis = [f"{one:.3f}" for one in seen.frequencies]
    by_site = {
        site: _few_ticks(
            heatmap(one.values, axis, one.dimensions, "cycles per token", "dimension", "amplitude"),
            axis,
        )
        for site, one in seen.amplitude.items()
    }
    drift = np.array(seen.drift)
    chosen = [s for s, site in enumerate(sites) if site in found[:4]] or [0]
    parts: list[str | Figure | Table] = [
        f"Means by position over {seen.texts} texts of {seen.positions} positions; windows "
        f"of {seen.window} positions, straight line off, faded in and out. A site counts when "
        "its strongest frequency is sharper than in every shuffle and in the words, and positions "
        "explain more than one hundredth of its variance. " + said,
        Table(
            named("Waves by site", name),
            ["site", "period", "sharpness", "shuffled", "words", "share of variance"],
            rows,
            f"Period in tokens of the strongest frequency; {seen.window / 2:g} is the longest "
            "that a window holds, and stands for all that are longer; sharpness: its power over "
            "the mean power; shuffled: the sharpest of ten shuffles of the positions.",
        ),
        Figure(
            named("Spectra by site", name),
            _few_ticks(heatmap(power, axis, sites, "cycles per token", "", "share of power"), axis),
            "Power summed over dimensions, each site on its own.",
            [
                {"site": site, "frequency": f, "share": float(power[s, i])}
                for s, site in enumerate(sites)
                for i, f in enumerate(seen.frequencies)
            ],
        ),
        Figure(
            named("Dimension by frequency", name),
            slid(by_site, "site:"),
            "The dimensions with the highest peaks, highest first; a sine of amplitude a shows as "
            "a.",
            [
                {"site": site, "dimension": d, **dict(zip(axis, values, strict=True))}
                for site, one in seen.amplitude.items()
                for d, values in zip(one.dimensions, one.values, strict=True)
            ],
        ),
        Figure(
            named("Period along the text", name),
            lines(
                [Series(sites[s], seen.centres, 1 / drift[s]) for s in chosen],
                "position in the middle of the window",
                "strongest period, tokens",
            ),
            "One spectrum of all positions would blur a period that drifts.",
            [
                {"site": sites[s], "position": p, "period": float(1 / d)}
                for s in chosen
                for p, d in zip(seen.centres, drift[s], strict=True)
            ],
        ),
    ]
    return Section(named("Waves along positions", name, ": "), parts)


def _directions(seen: WavesSummary, name: str) -> Section:
    value = seen.recovery
    means = {method: float(np.nanmean(values)) for method, values in value.items()}
    found = [m for m in means if not np.isnan(means[m])]
    order = sorted(found, key=lambda m: -means[m])
    best, directions = seen.recovery_best
    layers = np.arange(len(seen.recovery_sites))
    unsettled = seen.unsettled
    figure = lines(
        [Series(method, layers, values) for method, values in value.items()],
        "layer", "share of variance by position",
        references=[Reference(seen.recovery_null, "null: positions shuffled")],
    )  # fmt: skip
    figure.update_xaxes(dtick=1)
    return Section(
        named("Which directions hold positions", name, ": "),
        [
            f"For each method the {best} of {directions} directions of what attention is given "
            "whose variance positions explain best. Most is held, in the mean over layers, by "
            + ", then ".join(f"{method} ({means[method]:.2f})" for method in order)
            + "."
            + (
                f" FastICA did not converge in {len(unsettled)} of {len(layers)} layers."
                if unsettled
                else ""
            ),
            Figure(
                named("Positions in a few directions", name),
                figure,
                "What attention is given, layer by layer.",
                [
                    {"method": method, "layer": int(p), "share": float(v)}
                    for method, values in value.items()
                    for p, v in zip(layers, values, strict=True)
                ],
            ),
        ],
    )


def _survival(seen: WavesSummary, name: str) -> Section:
    norms = Table(
        named("What norms divide by", name),
        ["norm", "std / mean over tokens"],
        [[path, value] for path, value in seen.norms.items()],
        "How much S of S P L varies from token to token: a norm that divides all alike leaves "
        "waves as they are.",
    )
    if seen.propagation is None:
        said = "This model adds no positions to its words, so there are none to follow."
        return Section(named("What survives on the way up", name, ": "), [said, norms])
    first, last = seen.propagation[0], seen.propagation[-1]
    curves = {
        "S P L": [one.fit for one in seen.propagation],
        "rows shuffled": [one.shuffled for one in seen.propagation],
        "straight line": [one.line for one in seen.propagation],
        "share of variance": [one.share for one in seen.propagation],
    }
    figure = lines(
        [Series(key, np.arange(len(values)), values) for key, values in curves.items()],
        "site (0 = embeddings)", "R², or share of variance",
    )  # fmt: skip
    figure.update_xaxes(dtick=1)
    return Section(
        named("What survives on the way up", name, ": "),
        [
            f"Scaled by rows and columns (S P L), the position embeddings explain "
            f"{first.fit:.2f} of the means by position at the embeddings and "
            f"{last.fit:.2f} on top; with shuffled rows, which are as free, "
            f"{first.shuffled:.2f} and {last.shuffled:.2f}; a straight "
            f"line {first.line:.2f} and {last.line:.2f}. "
            f"Positions make up {first.share:.2f} of all variance at the "
            f"embeddings, {last.share:.2f} on top.",
            Figure(
                named("Position embeddings by layer", name),
                figure,
                "Means over texts.",
                [
                    {"site": one.site, **{key: values[s] for key, values in curves.items()}}
                    for s, one in enumerate(seen.propagation)
                ],
            ),
            norms,
        ],
    )


def _filters(seen: WavesSummary, name: str) -> Section:
    found = seen.filters
    names, change, error = found.bands, found.change, found.error
    moved = {mode: np.array(values).mean(1) for mode, values in found.moved.items()}
    if found.asked:
        worst = int(np.argmax(change["stop"][:-1]))
        sure = [
            names[b]
            for b in range(len(names) - 1)
            if change["stop"][b] - error["stop"][b]
            > max(0.0, change["shuffled"][b] + error["shuffled"][b])
        ]
        said = (
            f"Asked for: {found.asked}; the model as it is loses {found.loss:.3f} nats. All "
            f"waves out: {change['stop'][-1]:+.3f} ± {error['stop'][-1]:.3f}. The single band that "
            f"costs most is that of periods {names[worst]}: {change['stop'][worst]:+.3f} ± "
            f"{error['stop'][worst]:.3f}; the same values taken off at other positions: "
            f"{change['shuffled'][worst]:+.3f}. "
            + (
                f"Bands whose loss is surely above zero and above that control: {', '.join(sure)}."
                if sure
                else "No band costs surely more than zero and than that control."
            )
        )
        figure = bars(
            [
                Series(mode, names, v, np.subtract(v, error[mode]), np.add(v, error[mode]))
                for mode, v in change.items()
            ],
            "period in tokens", f"loss added ({found.asked}, nats)",
        )  # fmt: skip
    else:
        said = "This model has no loss of its own; shown is how much attention goes elsewhere."
        figure = bars(
            [Series(mode, names, v) for mode, v in moved.items()],
            "period in tokens", "share of attention moved",
        )  # fmt: skip
    rows: list[dict[str, Any]] = [
        {
            "filter": mode, "period": band, "loss added": change[mode][b],
            "two errors": error[mode][b], "attention moved": float(moved[mode][b]),
        }
        for mode in change
        for b, band in enumerate(names)
    ]  # fmt: skip
    return Section(
        named("Bands taken out", name, ": "),
        [
            "A band of frequencies is taken off the mean queries and keys of all layers at once; "
            f"what words bring stays. {said}",
            Figure(
                named("What a band is worth", name),
                figure,
                f"{found.texts} texts, whiskers two standard errors. stop: the band taken out; "
                "pass: of the positions nothing but the band left; shuffled: the band's values "
                "taken off at other positions, the control.",
                rows,
            ),
        ],
    )
