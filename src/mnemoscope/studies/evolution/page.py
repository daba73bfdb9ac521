"""The page of the study `evolution`: every figure and sentence is computed from its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mnemoscope.plots.figure import Reference, Series, lines
from mnemoscope.report.document import Figure, Section, Table
from mnemoscope.studies.evolution.claims import PAIRS, between, claims, curves
from mnemoscope.studies.evolution.study import OBJECTIVES

if TYPE_CHECKING:
    import plotly.graph_objects as go


def tell(result: dict[str, Any]) -> Sequence[Section]:
    """Build the sections of the page."""
    return [
        _claims(result),
        _information(result),
        _distances(result),
        _change(result),
        _influence(result),
        _neighbours(result),
        _models(result),
    ]


def _claims(result: dict[str, Any]) -> Section:
    rows = claims(result)
    seen = sum(row[1].startswith("seen") for row in rows)
    unclear = sum(row[1].startswith("unclear") for row in rows)
    source = result["corpus"] or "sentences from a made-up grammar"
    return Section(
        "What was seen",
        [
            f"Of {len(rows)} orderings that Voita, Sennrich and Titov (2019) report for models of "
            f"512 × 6 trained on millions of sentences, {seen} were seen here, {unclear} in some "
            f"trainings only, {len(rows) - seen - unclear} in none. The models here are "
            f"{result['width']} wide, {result['layers']} layers deep and read {source}.",
            Table(
                "Orderings of the paper",
                ["ordering", "here", "numbers"],
                rows,
                "Seen means in every training, or every pair of trainings, that it speaks of.",
            ),
        ],
    )


def _spread(
    result: dict[str, Any], *path: str, among: Sequence[str] = OBJECTIVES, first: int = 0
) -> tuple[list[Series], list[dict[str, Any]]]:
    """Curves over places, and the rows that they show."""
    series, rows = [], []
    for objective in among:
        values = curves(result, objective, *path)
        places = np.arange(first, first + values.shape[1])
        series.append(
            Series(
                objective, places, values.mean(0), values.min(0), values.max(0),
                style=OBJECTIVES.index(objective),
            )
        )  # fmt: skip
        rows += [
            {"objective": objective, "training": t, "layer": int(p), "value": float(v)}
            for t, one in enumerate(values)
            for p, v in zip(places, one, strict=True)
        ]
    return series, rows


def by_layer(series: Sequence[Series], x: str, y: str, **options: Any) -> go.Figure:
    """Curves over whole layers."""
    figure = lines(series, x, y, **options)
    figure.update_xaxes(dtick=1)
    return figure


SEEDS = "Line: mean over trainings; band: lowest to highest. Layer 0 is the embeddings."


def _information(result: dict[str, Any]) -> Section:
    first = next(row for row in result["trials"] if "diverged" not in row)
    series, rows = _spread(result, "information", "token")
    null = float(np.mean([np.mean(curves(result, o, "null", "token")) for o in OBJECTIVES]))
    spread = max(r["clustering_spread"]["token"] for r in result["trials"] if "diverged" not in r)
    parts: list[str | Figure | Table] = [
        "Vectors of a layer are put into clusters; the figures show how many nats the cluster "
        f"tells about the token that was read ({result['clusters']} clusters, one recipe for all, "
        f"{first['tokens']} tokens). Clustering with another seed moves a value by at most "
        f"{spread:.2f} nats.",
        Figure(
            "What layers know of the token read",
            by_layer(
                series, "layer", "nats about the token",
                references=[
                    Reference(first["entropy"]["token"], "all there is to know"),
                    Reference(null, "null: shuffled"),
                ],
            ),
            SEEDS,
            rows,
        ),
    ]  # fmt: skip
    for target, word in (("next", "to come"), ("previous", "before")):
        series, rows = _spread(result, "information", target)
        null = float(np.mean([np.mean(curves(result, o, "null", target)) for o in OBJECTIVES]))
        parts.append(
            Figure(
                f"What layers know of the token {word}",
                by_layer(
                    series, "layer", f"nats about the token {word}",
                    references=[Reference(null, "null: shuffled")],
                ),
                f"{SEEDS} An LM has not read what is to come, MT and MLM have.",
                rows,
            )
        )  # fmt: skip
    series, rows = _spread(result, "masked", "label", among=("LM", "MLM"))
    null = float(np.mean(curves(result, "MLM", "masked", "null")))
    parts.append(
        Figure(
            "What layers know of a hidden token",
            by_layer(
                series, "layer", "nats about the hidden token",
                references=[Reference(null, "null: shuffled")],
            ),
            f"{SEEDS} Words are hidden as in the training of the MLM; the LM, which never saw a "
            "hidden word, is the control.",
            rows,
        )
    )  # fmt: skip
    return Section("What is known of what was read", parts)


def _distances(result: dict[str, Any]) -> Section:
    series: list[Series] = []
    rows: list[dict[str, Any]] = []
    named = [(f"{a} – {b}", a, b) for a, b in PAIRS] + [
        (f"{o}, seeds only", o, o) for o in OBJECTIVES
    ]
    for number, (name, left, right) in enumerate(named):
        values = between(result, left, right)
        if not len(values):
            continue
        places = np.arange(values.shape[1])
        series.append(
            Series(name, places, values.mean(0), values.min(0), values.max(0), style=number)
        )
        rows += [
            {"pair": name, "number": p, "layer": int(s), "pwcca": float(v)}
            for p, one in enumerate(values)
            for s, v in enumerate(one)
        ]
    null = float(np.mean([row["null"] for row in result["distances"]]))
    tokens = next(row["tokens"] for row in result["trials"] if "tokens" in row)
    return Section(
        "How far apart objectives are",
        [
            "PWCCA distance between the same layer of two models over the same tokens. Two "
            "trainings of one objective with different seeds are the floor: what differs between "
            "them is nothing that was asked for.",
            Figure(
                "Distance between objectives",
                by_layer(series, "layer", "PWCCA distance"),
                f"Line: mean over pairs of trainings; band: lowest to highest. {tokens} tokens, "
                f"{tokens / result['width']:.0f} for each dimension; tokens paired at random would "
                f"be at {null:.2f}.",
                rows,
            ),
        ],
    )


def _change(result: dict[str, Any]) -> Section:
    series, rows = _spread(result, "change", first=1)
    return Section(
        "How much tokens change on their way",
        [
            "PWCCA distance between a layer and the one below it, over all tokens, and over "
            f"{result['samples']} tokens of each group of frequency.",
            Figure(
                "Change from layer to layer",
                by_layer(series, "layer", "PWCCA distance to the layer below"),
                SEEDS,
                rows,
            ),
            *(_by_group(result, objective, "change_by_group") for objective in OBJECTIVES),
        ],
    )


def _by_group(result: dict[str, Any], objective: str, key: str) -> Figure:
    values = curves(result, objective, key, "distance")  # (seeds, groups, steps)
    groups = next(r[key]["groups"] for r in result["trials"] if r["objective"] == objective)
    places = np.arange(1, values.shape[2] + 1)
    what = "change" if key == "change_by_group" else "influence"
    return Figure(
        f"{what.capitalize()} by frequency in {objective}",
        by_layer(
            [
                Series(g, places, v.mean(0), v.min(0), v.max(0))
                for g, v in zip(groups, values.swapaxes(0, 1), strict=True)
            ],
            "layer",
            f"{what} (PWCCA distance)",
        ),
        "Line: mean over trainings; band: lowest to highest. Rank 1 is the most frequent token.",
        [
            {"training": t, "group": g, "layer": int(p), what: float(values[t, n, s])}
            for t in range(len(values))
            for n, g in enumerate(groups)
            for s, p in enumerate(places)
        ],
    )


def _influence(result: dict[str, Any]) -> Section:
    return Section(
        "How much tokens change each other",
        [
            "In one layer a token is hidden from all others; its influence is the PWCCA distance "
            "between what they become there with and without it. Hiding nothing gives exactly "
            "zero.",
            *(_by_group(result, objective, "influence") for objective in OBJECTIVES),
        ],
    )


def _neighbours(result: dict[str, Any]) -> Section:
    first = next(row for row in result["trials"] if "diverged" not in row)
    titles = {
        "token": ("Neighbours that are the same token", "share"),
        "position": ("Distance in position of neighbours", "tokens"),
        "left": ("Neighbours with the same token to the left", "share"),
        "right": ("Neighbours with the same token to the right", "share"),
    }
    parts: list[str | Figure | Table] = [
        f"The {result['k']} nearest neighbours of a token in a layer's space: among all tokens for "
        "the first figure, among occurrences of the same token for the others."
    ]
    for what, (title, unit) in titles.items():
        series, rows = _spread(result, "neighbours", what)
        references = [Reference(first["neighbours_null"][what], "null: at random")]
        if what == "token":
            references.append(Reference(first["ceiling"], "best possible"))
        figure = by_layer(series, "layer", unit, references=references)
        parts.append(Figure(title, figure, SEEDS, rows))
    return Section("What lies near", parts)


def _models(result: dict[str, Any]) -> Section:
    rows = [
        [
            objective,
            result["parameters"][objective],
            float(curves(result, objective, "valid_loss").mean()),
            float(curves(result, objective, "seconds").mean()),
            sum("diverged" in r for r in result["trials"] if r["objective"] == objective),
        ]
        for objective in OBJECTIVES
    ]
    return Section(
        "The models",
        [
            "The layers that read are the same; a translator has as many layers more that speak. "
            "Losses are of different questions and cannot be compared with each other.",
            Table(
                "What was trained",
                ["objective", "parameters", "validation loss", "training s", "diverged"],
                rows,
                "Means over seeds; losses in nats per question.",
            ),
        ],
    )
