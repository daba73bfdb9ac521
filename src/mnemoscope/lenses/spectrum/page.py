"""The section on waves along positions: every sentence is computed from what was seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.lenses.heads.page import slid
from mnemoscope.lenses.lens import Part, records
from mnemoscope.lenses.spectrum.summary import (
    LEAST_SHARE,
    LEAST_STANDING_OUT,
    RATIO,
    SpectrumBrief,
    SpectrumSummary,
)
from mnemoscope.plots.figure import Plot, Series, heatmap, lines
from mnemoscope.report.claims import Claim, claims_table
from mnemoscope.report.document import Figure, Section, Table


def by_frequency(
    values: Floats, frequencies: Floats, rows: Sequence[object], title: str, of: str
) -> Plot:
    """Numbers by row and frequency as a picture; a few of many frequencies are written, flat."""
    labels = [f"{one:.3f}" for one in frequencies]
    figure = heatmap(values, labels, rows, "cycles per token", title, of)
    step = max(1, len(labels) // 8)
    figure.update_xaxes(tickmode="array", tickvals=labels[::step], tickangle=0)
    return figure


def wave_sentences(seen: SpectrumBrief) -> list[str]:
    """Where waves stand out most, or that they do not."""
    enough = seen.share > LEAST_SHARE
    if not enough.any():
        return [
            f"Positions explain at most {max(seen.share.max(), 0):.3f} of the variance at any of "
            f"{len(seen.sites)} sites, less than the {LEAST_SHARE:g} that counts: waves along "
            "positions are not distinguishable from noise."
        ]
    site = seen.strongest_site
    s = seen.sites.index(site)
    longer = " or longer" if np.isclose(seen.peak[s], seen.frequencies[0], rtol=1e-3) else ""
    wave = (
        f"{seen.sharpness[s]:.1f} times the mean power at a period of {1 / seen.peak[s]:.3g} tokens"
        f"{longer} (positions shuffled: at most {seen.sharpness_null[s]:.1f}, words: "
        f"{seen.words_sharpness[s]:.1f})"
    )
    standing = sum(seen.standing_out(one) >= LEAST_STANDING_OUT for one in seen.sites)
    if not standing:
        return [
            f"At none of {len(seen.sites)} sites are waves along positions distinguishable from "
            f"shuffled positions and from words; nearest to it is {site}, {wave}."
        ]
    return [
        f"Waves along positions stand out at {standing} of {len(seen.sites)} sites, most at "
        f"{site}: {wave}.",
        f"There positions explain {seen.share[s]:.2f} of the variance.",
    ]


def spectra_section(seen: SpectrumSummary) -> Section:
    """Which sites hold waves, and how they look."""
    sites = seen.sites
    found = seen.with_waves
    periods = [None if np.isnan(one) else 1 / one for one in seen.peak.tolist()]
    curves = (seen.sharpness, seen.sharpness_null, seen.words_sharpness, seen.share)
    power = np.maximum(seen.power, 0)
    power = power / np.maximum(power.sum(1, keepdims=True), 1e-300)
    axis = [f"{one:.3f}" for one in seen.frequencies]
    by_site = {
        site: by_frequency(one.values, seen.frequencies, one.dimensions, "dimension", "amplitude")
        for site, one in seen.amplitude.items()
    }
    chosen = [s for s, site in enumerate(sites) if site in found[:4]] or [0]
    parts: list[Part] = [
        f"Means by position over {seen.texts} texts of {seen.positions} positions; windows "
        f"of {seen.window} positions, straight line off, faded in and out. A site counts when "
        "its strongest frequency is sharper than in every shuffle and in the words, and positions "
        f"explain more than one hundredth of its variance: {', '.join(found) or 'none does'}.",
        claims_table(
            "Are there waves",
            [
                Claim(f"Waves at {site}", [seen.standing_out(site)], LEAST_STANDING_OUT, RATIO)
                for site in sites[:3]
            ],
        ),
        Table(
            "Waves by site",
            ["site", "period", "sharpness", "shuffled", "words", "share of variance"],
            list(zip(sites, periods, *(one.tolist() for one in curves), strict=True)),
            f"Period in tokens of the strongest frequency; {seen.window / 2:g} is the longest "
            "that a window holds, and stands for all that are longer; sharpness: its power over "
            "the mean power; shuffled: the sharpest of ten shuffles of the positions.",
        ),
        Figure(
            "Spectra by site",
            by_frequency(power, seen.frequencies, sites, "", "share of power"),
            "Power summed over dimensions, each site on its own.",
            records({"site": sites, "frequency": seen.frequencies.tolist()}, {"share": power}),
        ),
        Figure(
            "Dimension by frequency",
            slid(by_site, "site:"),
            "The dimensions with the highest peaks, highest first; a sine of amplitude a shows as "
            "a.",
            [
                {"site": site, "dimension": d, **dict(zip(axis, values, strict=True))}
                for site, one in seen.amplitude.items()
                for d, values in zip(one.dimensions, one.values.tolist(), strict=True)
            ],
        ),
        Figure(
            "Period along the text",
            lines(
                [Series(sites[s], seen.centres, 1 / seen.drift[s]) for s in chosen],
                "position in the middle of the window",
                "strongest period, tokens",
            ),
            "One spectrum of all positions would blur a period that drifts.",
            records(
                {"site": [sites[s] for s in chosen], "position": seen.centres.tolist()},
                {"period": 1 / seen.drift[chosen]},
            ),
        ),
    ]
    return Section("Waves along positions", parts)
