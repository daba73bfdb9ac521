"""The section on waves along positions: every sentence is computed from what was seen."""

from __future__ import annotations

import numpy as np

from mnemoscope.lenses.heads.page import named, slid
from mnemoscope.lenses.lens import Part, records
from mnemoscope.lenses.spectrum.summary import SpectrumSummary
from mnemoscope.plots.figure import Plot, Series, heatmap, lines
from mnemoscope.report.document import Figure, Section, Table


def _few_ticks(figure: Plot, labels: list[str]) -> Plot:
    """Write a few of many frequencies, flat."""
    step = max(1, len(labels) // 8)
    figure.update_xaxes(tickmode="array", tickvals=labels[::step], tickangle=0)
    return figure


def spectra_section(seen: SpectrumSummary, name: str) -> Section:
    """Which sites hold waves, and how they look."""
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
    parts: list[Part] = [
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
            records({"site": sites, "frequency": seen.frequencies}, {"share": power}),
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
            records(
                {"site": [sites[s] for s in chosen], "position": seen.centres},
                {"period": 1 / drift[chosen]},
            ),
        ),
    ]
    return Section(named("Waves along positions", name, ": "), parts)
