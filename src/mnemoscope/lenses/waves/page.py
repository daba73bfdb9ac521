"""Sections on the position waves of one model: every sentence is computed from what was seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.lenses.heads.page import (
    along_positions,
    by_head,
    heads_section,
    led,
    relative_sentences,
    slid,
)
from mnemoscope.lenses.lens import Part, Records, by_site, records
from mnemoscope.lenses.positions.frequencies import band_names
from mnemoscope.lenses.spectrum.page import spectra_section, wave_sentences
from mnemoscope.lenses.waves.claims import filter_claims, learnt, survival_claims, unmatched
from mnemoscope.lenses.waves.summary import (
    FILTERS,
    BandFilters,
    HeadColumns,
    WaveShift,
    WavesSummary,
)
from mnemoscope.plots.figure import Plot, Reference, Series, lines
from mnemoscope.report.claims import claims_table
from mnemoscope.report.document import Figure, Section, Table

FILTERED = "What taking a band out changes"
# What a control is; that of results of older versions left the wave in.
CONTROLS = {
    "elsewhere": "elsewhere: as much energy taken off all that is not the band, the control.",
    "shuffled": "shuffled: the band's values taken off at other positions.",
}


def sections(seen: WavesSummary, name: str = "") -> list[Section]:
    """All that is shown of one model; on a page of several, ``name`` keeps them apart."""
    made = [
        spectra_section(seen),
        heads_section(seen),
        _directions(seen),
        _survival(seen),
        _filters(seen),
    ]
    return [_named(one, name) for one in made] if name else made


def page(seen: WavesSummary) -> list[Section]:
    """The page of one model: whether waves are there, whether heads follow them, and their use."""
    said = [wave_sentences(seen)[0], relative_sentences(seen)[0], _use(seen.filters)]
    return led(sections(seen), FILTERED, said)


def _use(found: BandFilters) -> str:
    """Whether the model makes use of the band that changes most when it is taken out."""
    band = found.costliest
    if not all(gate.passed for gate in learnt(found)):
        return (
            f"Whether the model uses its waves is not judged: it loses {found.loss:.2f} nats on "
            f"the {found.asked}, no less than token frequencies alone ({found.entropy:.2f})."
        )
    stop, control = (
        f"{found.change[mode][band]:.2g} ± {found.error[mode][band]:.2g}"
        for mode in ("stop", found.control)
    )
    unit = f"nats to the loss on the {found.asked}" if found.asked else "of the outputs' variance"
    adds = "adds" if found.asked else "changes"
    taken = f"Taking out waves of {found.bands[band]} tokens {adds} {stop} {unit}"
    if why := unmatched(found, band):
        return f"{taken}; whether the model uses them is not judged: {why}."
    other = FILTERS[found.control].removeprefix("control: ")
    if found.surely(band):
        return f"{taken}; {other} {adds} {control}."
    if found.above_control(band) < 0:
        return f"{taken}, no more than {other} ({control})."
    return f"{taken}, not distinguishable from {other} ({control})."


def _named(section: Section, name: str) -> Section:
    """The same section on a page of several models: all names tell of which one it is."""
    parts = [
        part if isinstance(part, str) else replace(part, name=f"{part.name}, {name}")
        for part in section.parts
    ]
    return Section(f"{section.title}: {name}", parts)


def recovered(value: Mapping[str, Floats], null: float, ticks: Sequence[str], title: str) -> Plot:
    """Share of variance by position of every method over layers or sites."""
    curves = {method: (values,) for method, values in value.items()}
    references = [Reference(null, "null: positions shuffled")]
    return by_site(curves, ticks, title, "share of variance by position", references=references)


def _directions(seen: WavesSummary) -> Section:
    value = seen.recovery
    means = {method: float(np.nanmean(values)) for method, values in value.items()}
    found = [m for m in means if not np.isnan(means[m])]
    order = sorted(found, key=lambda m: -means[m])
    best, directions = seen.recovery_best
    layers = range(len(seen.recovery_sites))
    unsettled = seen.unsettled
    return Section(
        "Which directions hold positions",
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
                "Positions in a few directions",
                recovered(value, seen.recovery_null, list(map(str, layers)), "layer"),
                "What attention is given, layer by layer.",
                records({"method": list(value), "layer": layers}, {"share": list(value.values())}),
            ),
        ],
    )


def _norms(seen: WavesSummary) -> Table:
    """What norms do to the means by position; of a model without any, how they vary."""
    name = "What norms divide by"
    if seen.propagation is None or not seen.norm_fits:
        said = (
            "How much the std that a norm divides by varies over tokens: a norm that divides all "
            "alike leaves waves as they are."
        )
        return Table(name, ["norm", "std / mean over tokens"], list(seen.norms.items()), said)
    return Table(
        name,
        ["norm", "on the way", "std / mean over tokens", "R² by S and L", "R² by L", "R² free",
         "whole after S"],
        [
            [one.path, "yes" if one.on_path else "beside", one.spread, one.measured, one.constant,
             one.free, one.whole]
            for one in seen.norm_fits
        ],
        "S is 1 / std of each token, L the gain. R² of what a norm gives, by position, from what "
        "it is given: with its measured S and L, with one S for all positions, and with S and L "
        "fitted. Whole after S: share of the energy of position embeddings that all S on the way "
        "leave in their shape, text by text; a norm that divides all alike leaves waves as they "
        "are.",
    )  # fmt: skip


def _survival(seen: WavesSummary) -> Section:
    if seen.propagation is None:
        said = "This model adds no positions to its words, so there are none to follow."
        return Section("What survives on the way up", [said, _norms(seen)])
    first, last = seen.propagation[0], seen.propagation[-1]
    curves = {
        "S P L, free": [one.fit for one in seen.propagation],
        "S P L of the norms": [one.norms for one in seen.propagation],
        "rows shuffled": [one.shuffled for one in seen.propagation],
        "straight line": [one.line for one in seen.propagation],
        "share of variance": [one.share for one in seen.propagation],
    }
    left = {
        "whole after S": [one.whole for one in seen.propagation],
        "left by the model": [max(one.kept, 0.0) ** 2 for one in seen.propagation],
    }
    sites = [one.site for one in seen.propagation]
    parts: list[Part] = [
        f"Scaled by rows and columns (S P L), the position embeddings explain "
        f"{first.fit:.2f} of the means by position at the embeddings and "
        f"{last.fit:.2f} on top; with shuffled rows, which are as free, "
        f"{first.shuffled:.2f} and {last.shuffled:.2f}; a straight "
        f"line {first.line:.2f} and {last.line:.2f}. "
        f"Positions make up {first.share:.2f} of all variance at the "
        f"embeddings, {last.share:.2f} on top.",
        Figure(
            "Position embeddings by layer",
            _over_sites(curves, "R², or share of variance"),
            "Means over texts. Free: S and L fitted; of the norms: measured, nothing fitted.",
            records({"site": sites}, curves),
        ),
    ]
    if seen.norm_fits:
        held = [one.site for one in seen.propagation if one.whole >= 0.9]
        parts += [
            f"Does S break the waves, or does the model discard them? With S and L as measured and "
            f"nothing fitted, the embeddings explain {first.norms:.2f} of the means at the bottom "
            f"and {last.norms:.2f} on top. "
            + (f"As far as {held[-1]} S leaves nine tenths of them whole. " if held else "")
            + f"On top S has left {last.whole:.2f} of their energy in its shape, and of what norms "
            f"carry there the model has left {max(last.kept, 0.0) ** 2:.2f}.",
            claims_table("Who takes the waves away", survival_claims(seen)),
            Figure(
                "What S and the model leave of the waves",
                _over_sites(left, "share of the waves' energy"),
                "Whole after S: energy of P that is still in its shape when every token has been "
                "divided by its own std on the way. Left by the model: energy of what norms carry "
                "there that is in the means; above 1, attention and feed-forward parts add to it.",
                records({"site": sites, "period": band_names()},
                        {"kept": [one.bands for one in seen.propagation]}),
            ),
        ]  # fmt: skip
    return Section("What survives on the way up", [*parts, _norms(seen)])


def _over_sites(curves: dict[str, list[float]], title: str) -> Plot:
    series = [Series(key, np.arange(len(values)), values) for key, values in curves.items()]
    figure = lines(series, "site (0 = embeddings)", title)
    figure.update_xaxes(dtick=1)
    return figure


def _filters(seen: WavesSummary) -> Section:
    found = seen.filters
    names, change, error = found.bands, found.change, found.error
    moved = {mode: values.mean(1) for mode, values in found.moved.items()}
    sure = [name for b, name in enumerate(names[:-1]) if found.surely(b)]
    asked = (
        f"Asked for: {found.asked}; the model as it is loses {found.loss:.3f} nats."
        if found.asked
        else "No loss can be asked of this model: it has no head that says tokens. Shown is how "
        "much of the variance of what its last layer gives changes."
    )
    by_mode = {"change": change, "two errors": error, "attention moved": moved}
    parts: list[Part] = [
        "A band of frequencies is taken off the mean queries and keys of all layers at once; what "
        f"words bring stays. {asked} All waves out: {change['stop'][-1]:+.3f} ± "
        f"{error['stop'][-1]:.3f}. Bands that surely count more than nothing and than the control: "
        f"{', '.join(sure) or 'none'}.",
        claims_table("Are the waves used", filter_claims(seen)),
        Figure(
            FILTERED,
            found.figure(),
            f"{found.texts} texts, whiskers two standard errors. In the data, stop: the band taken "
            f"out; pass: of the positions nothing but the band left; {CONTROLS[found.control]}",
            records(
                {"filter": list(change), "period": names},
                {key: [values[mode] for mode in change] for key, values in by_mode.items()},
            ),
        ),
    ]
    if seen.shift is not None:
        parts.append(_shift(seen, seen.shift))
    if seen.columns:
        parts.append(_columns(seen.columns))
    return Section("Bands taken out", parts)


def _shift(seen: WavesSummary, shift: WaveShift) -> Figure:
    layers, heads = map(range, seen.relative.shape)
    return Figure(
        "Attention that follows a shift",
        by_head(shift.moved.mean(0), "share that moved by k"),
        f"Each query is given the mean of the position k tokens before it in place of its own, k = "
        f"{', '.join(map(str, shift.shifts))}; words stay. Share of a head's attention by offset "
        f"that is then k tokens further back, mean over k; {shift.texts} texts.",
        records(
            {"shift": shift.shifts, "layer": layers, "head": heads},
            {"moved": shift.moved, "stayed": shift.stayed},
        ),
    )


def _columns(columns: Sequence[HeadColumns]) -> Figure:
    shown: dict[str, Plot] = {}
    rows: Records = []
    for one in columns:
        kinds = {"one text": one.text, "mean": one.mean, f"mean, {one.band} tokens": one.passed}
        series = [
            Series(f"{side}, {kind}", np.arange(len(curves[number])), curves[number])
            for number, side in enumerate(("query", "key"))
            for kind, curves in kinds.items()
        ]
        at = f"{one.layer}.{one.head}"
        shown[f"{at} column {one.column}"] = lines(series, "position", "value")
        of = {"layer": one.layer, "head": one.head, "column": one.column}
        rows += along_positions(of, series, "curve")
    return Figure(
        "Columns of queries and keys",
        slid(shown, "layer.head:"),
        "Raw in one text, in the mean over texts, and with one band of periods passed: bias, noise "
        "and all other waves are gone. The column that brings most to the scores of the head.",
        rows,
    )
