"""Sections on the position waves of one model: every sentence is computed from what was seen."""

from __future__ import annotations

import numpy as np

from mnemoscope.lenses.heads.page import heads_section, named
from mnemoscope.lenses.lens import records
from mnemoscope.lenses.spectrum.page import spectra_section
from mnemoscope.lenses.waves.summary import WavesSummary
from mnemoscope.plots.figure import Reference, Series, bars, lines
from mnemoscope.report.document import Figure, Section, Table


def sections(seen: WavesSummary, name: str = "") -> list[Section]:
    """All that is shown of one model; on a page of several, ``name`` keeps them apart."""
    return [
        spectra_section(seen, name),
        heads_section(seen, name),
        _directions(seen, name),
        _survival(seen, name),
        _filters(seen, name),
    ]


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
                records(
                    {"method": list(value), "layer": layers.tolist()},
                    {"share": list(value.values())},
                ),
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
                records({"site": [one.site for one in seen.propagation]}, curves),
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
    by_mode = {"loss added": change, "two errors": error, "attention moved": moved}
    rows = records(
        {"filter": list(change), "period": names},
        {key: [values[mode] for mode in change] for key, values in by_mode.items()},
    )
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
