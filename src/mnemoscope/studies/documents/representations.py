"""Sections of the study `documents` about representations: do they move, how are they mapped?"""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from mnemoscope.plots.figure import Series, lines
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.curves import curves_figure
from mnemoscope.studies.documents.claims import (
    ENCODED,
    of_depths,
    of_encoders,
    of_moves,
    usual,
)
from mnemoscope.studies.documents.result import DocumentsResult, Paths
from mnemoscope.studies.documents.sentences import APART, means, shape_curve, told
from mnemoscope.studies.documents.settings import (
    CONTROLS,
    DEPTHS,
    DIMS,
    ENCODERS,
    FIXED,
    GUIDED,
    SIZED,
    STARTS,
    Setting,
    deep,
    encoded,
    moving,
)
from mnemoscope.studies.sentences import all_banded, band

# Of `Newcomers`, in the order of the table.
UNSEEN = ("gain", "named")


def moves_section(result: DocumentsResult) -> Section:
    """Question 5."""
    rows: list[list[Cell]] = []
    keys = ("moved", "flipped", "selection_moved", "right", "wrong", "named")
    for start in (*STARTS, "sgd"):
        for dim in DIMS:
            label = "SGD, orthogonal" if start == "sgd" else f"Adam, {start}"
            rows.append([label, dim, *means(result, usual(result, start, dim), keys)])
    for setting, label in {FIXED: "fixed, α = 0.1", **CONTROLS}.items():
        rows.append([label, result.key_dim, *means(result, setting, keys)])
    return Section(
        "5 · Do representations move?",
        [
            "Coordinates of the random start are of size one, those of the orthogonal start shrink "
            "with their number. " + told(*of_moves(result)),
            Table(
                "How far representations go",
                [
                    "start",
                    "size",
                    "moved",
                    "signs",
                    "selection moved",
                    "right",
                    "wrong",
                    "identified",
                ],
                rows,
                "Distance travelled relative to the length at the start, for representations and "
                "for the gates they make; signs: share of numbers that changed sign. tanh, α = 1 "
                "where nothing else is said; means over seeds.",
            ),
            *_by_count(result),
            *_paths(result),
        ],
    )


def _by_count(result: DocumentsResult) -> list[Table]:
    """Size of representations against number of documents; older results have none."""
    if not result.counts:
        return []
    keys = ("moved", "flipped", "selection_moved", "right", "named")
    counts = sorted({*result.counts, result.documents})
    rows: list[list[Cell]] = [
        [start, count, dim, *means(result, _counted(result, start, dim, count), keys)]
        for start in SIZED
        for count in counts
        for dim in DIMS
    ]
    return [
        Table(
            "Size of representations against number of documents",
            [
                "start",
                "documents",
                "size",
                "moved",
                "signs",
                "selection moved",
                "right",
                "identified",
            ],
            rows,
            "As above; all documents are in every step, so that steps are as many. Means over "
            "seeds.",
        )
    ]


def _counted(result: DocumentsResult, start: str, dim: int, count: int) -> Setting:
    return moving(start, dim, count) if count in result.counts else usual(result, start, dim)


def _paths(result: DocumentsResult) -> list[Figure]:
    """The ways of representations; older results have none."""
    names = {usual(result, start, dim): f"{start}, {dim} numbers"
             for start in SIZED for dim in (DIMS[0], DIMS[-1])}  # fmt: skip
    names |= {GUIDED: f"orthogonal, {result.key_dim} numbers, α = 0.1"}
    tracks = {label: result.each(setting, lambda fit: fit.paths)
              for setting, label in names.items()}  # fmt: skip
    tracks = {label: found for label, found in tracks.items() if found}
    if not tracks:
        return []
    curves, rows = all_banded(
        next(iter(tracks.values()))[0].steps,
        {label: np.array([one.moved for one in found]) for label, found in tracks.items()},
        ("step", "moved"),
    )
    gone = Figure(
        "How far representations have gone",
        lines(curves, "step", "distance from the start / length at the start"),
        "α = 1 where nothing else is said. Line: mean over seeds; band: lowest to highest.",
        rows,
    )
    return [gone, *(_path(label, found[0]) for label, found in tracks.items())]


def _path(label: str, one: Paths) -> Figure:
    """The ways of all documents of one training."""
    points = np.array(one.points)  # (M, N, 2)
    drawn = lines(
        [Series(name, *points[:, number].T) for number, name in enumerate(one.names)],
        "first axis",
        "second axis",
    )
    x, y = points[0].T
    drawn.add_scatter(x=x, y=y, mode="markers", name="start",
                      marker={"symbol": "x", "size": 9, "color": "black"})  # fmt: skip
    return Figure(
        f"Paths of representations, {label}",
        drawn,
        f"Seed 0, a line a document, from the cross on. The two axes show {one.shown:.0%} of the "
        "variance between all of these points.",
        [
            {"document": name, "step": step, "first": x, "second": y}
            for number, name in enumerate(one.names)
            for step, (x, y) in zip(one.steps, points[:, number].tolist(), strict=True)
        ],
    )


def depths_section(result: DocumentsResult) -> Section:
    """Question 6."""
    names = {deep(depth): f"{depth}" for depth in DEPTHS}
    ends = DEPTHS[0], DEPTHS[-1]
    pushed = max(
        one.wrong
        for depth in ends
        for track in result.each(deep(depth), lambda fit: fit.gradients)
        for one in track
    )
    dead = [result.over_seeds(setting, "dead") for setting in names]
    keys = ("right", "wrong", "dead", "length", "apart", "apart_by_length", "moved")
    free_names = {deep(depth, alpha=0.0): f"{depth}, α = 0" for depth in DEPTHS}
    rows: list[list[Cell]] = [
        [label, *means(result, setting, keys)]
        for setting, label in {**names, **free_names, **CONTROLS}.items()
    ]
    curves: list[Series] = []
    for depth in ends:
        gradients = result.each(deep(depth, negative="other"), lambda fit: fit.gradients)
        steps = [one.step for one in gradients[0]]
        right, wrong = ([[getattr(one, term) for one in track] for track in gradients]
                        for term in ("right", "wrong"))  # fmt: skip
        curves.append(band(f"remembering, depth {depth}", steps, right))
        curves.append(band(f"guidance, depth {depth}", steps, wrong))
    recorded = [deep(depth, negative=kind) for kind in ("random", "other") for depth in ends]
    return Section(
        "6 · Would a nonlinear map move them more?",
        [
            f"{told(*of_depths(result))} Dead entries, closed for every document: "
            + ", ".join(
                f"{one.mean():.0%} at depth {d}" for d, one in zip(DEPTHS, dead, strict=True)
            )
            + ".",
            "With random negatives the gradient of guidance at the representations is "
            f"{pushed:.2g} at most"
            + (": what moves them is remembering alone." if pushed == 0 else "."),
            Table(
                "Depth of the map from representation to entries",
                ["depth", "right", "wrong", "dead", "length", "apart", "apart / length", "moved"],
                rows,
                "ReLU, two numbers a document, random negatives, α = 1 where nothing else is said; "
                "controls: tanh or masks. Means over seeds.",
            ),
            curves_figure(
                "How far apart selections lie, by depth",
                [shape_curve(result, one, f"depth {d}", depth=d) for one, d in names.items()],
                APART,
                "Line: mean over seeds; band: lowest to highest. In the paper it falls with depth.",
            ),
            Figure(
                "Gradient at the representations",
                lines(curves, "step", "norm of the gradient"),
                "The two terms of the loss apart, other documents as negatives. Line: mean over "
                "seeds; band: lowest to highest.",
                [
                    {"setting": setting.name, "seed": seed, **asdict(one)}
                    for setting in recorded
                    for seed, track in enumerate(result.each(setting, lambda fit: fit.gradients))
                    for one in track
                ],
            ),
        ],
    )


def encoders_section(result: DocumentsResult) -> Section:
    """Question 7."""
    claims = of_encoders(result)
    rows: list[list[Cell]] = []
    names = {
        FIXED: "orthogonal, fixed",
        **{encoded(encoder): label for encoder, label in ENCODED.items()},
        **CONTROLS,
    }
    for setting, label in names.items():
        late: list[Cell] = [None] * len(UNSEEN)
        found = result.each(setting, lambda fit: fit.newcomers)
        if found:
            late = [float(np.mean([getattr(one, key) for one in found])) for key in UNSEEN]
        rows.append([label, *means(result, setting, ("right", "wrong", "named")), *late])
    return Section(
        "7 · Representations that are read off the text",
        [
            "Documents with free representations know nothing of each other. An encoder gives an "
            f"unseen document a representation without training. {told(*claims[: len(ENCODERS)])}",
            "Or is it at least better off there than with another document's representation? "
            + told(*claims[len(ENCODERS) :]),
            Table(
                "Free representations and encoders",
                [
                    "representation",
                    "right",
                    "wrong",
                    "identified",
                    "unseen: gain",
                    "unseen: identified",
                ],
                rows,
                f"{len(ENCODERS)} encoders, representations not trained. Unseen: texts that were "
                "not learnt, under the representation the encoder gives them; chance of "
                f"identifying one is {1 / (result.documents + 3):.2f}. Means over seeds.",
            ),
        ],
    )
