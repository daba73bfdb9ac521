"""Sections of the study `documents` about representations: do they move, how are they mapped?"""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from mnemoscope.plots.figure import Series, lines
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.documents.result import DocumentsResult
from mnemoscope.studies.documents.sentences import means, shape_curve
from mnemoscope.studies.documents.settings import (
    CONTROLS,
    DEPTHS,
    DIMS,
    ENCODERS,
    FIXED,
    GUIDED,
    STARTS,
    Setting,
    deep,
    encoded,
    guided,
    moving,
)
from mnemoscope.studies.sentences import band, said


def moves_section(result: DocumentsResult) -> Section:
    """Question 5."""
    rows: list[list[Cell]] = []
    keys = ("moved", "flipped", "selection_moved", "right", "wrong", "named")
    for start in (*STARTS, "sgd"):
        for dim in DIMS:
            label = "SGD, orthogonal" if start == "sgd" else f"Adam, {start}"
            rows.append([label, dim, *means(result, _moving(result, start, dim), keys)])
    for setting, label in {FIXED: "fixed, α = 0.1", **CONTROLS}.items():
        rows.append([label, result.key_dim, *means(result, setting, keys)])
    small, large = DIMS[0], DIMS[-1]
    unit, turned = (
        [result.over_seeds(_moving(result, start, dim), "moved") for dim in (small, large)]
        for start in ("random", "orthogonal")
    )
    cost = result.over_seeds(FIXED, "right") - result.over_seeds(GUIDED, "right")
    start_decides = ""
    if unit[1].max() < unit[0].min() and turned[1].min() > turned[0].max():
        start_decides = (
            " Adam moves every coordinate about equally far, so the size of the start decides and "
            "not the room there is."
        )
    return Section(
        "5 · Do representations move?",
        [
            f"From coordinates of size one, those of {small} numbers move by {said(unit[0])} of "
            f"their length and those of {large} by {said(unit[1])}; from the orthogonal start, "
            f"whose coordinates shrink with their number, by {said(turned[0])} and "
            f"{said(turned[1])}.{start_decides}",
            f"Does it matter? Representations that may not move at all cost {said(cost, '+.2f')} "
            "nats per token.",
            Table(
                "How far representations go",
                ["start", "size", "moved", "signs", "selection moved", "right", "wrong", "named"],
                rows,
                "Distance travelled relative to the length at the start, for representations and "
                "for the gates they make; signs: share of numbers that changed sign. tanh, α = 1 "
                "where nothing else is said; means over seeds.",
            ),
        ],
    )


def _moving(result: DocumentsResult, start: str, dim: int) -> Setting:
    """The setting in which representations of ``dim`` numbers begin with ``start``."""
    same = (start, dim) == ("orthogonal", result.key_dim)
    return guided(alpha=1.0) if same else moving(start, dim)


def depths_section(result: DocumentsResult) -> Section:
    """Question 6."""
    names = {deep(depth): f"{depth}" for depth in DEPTHS}
    ends = DEPTHS[0], DEPTHS[-1]
    moved = [result.over_seeds(deep(depth), "moved") for depth in ends]
    ratio = [result.over_seeds(deep(depth), "apart_by_length") for depth in ends]
    free = [result.over_seeds(deep(depth, alpha=0.0), "apart_by_length") for depth in ends]
    pushed = max(
        one.wrong
        for depth in ends
        for track in result.each(deep(depth), lambda fit: fit.gradients)
        for one in track
    )
    way = "more" if moved[1].min() > moved[0].max() else (
        "less" if moved[1].max() < moved[0].min() else "neither surely more nor less"
    )  # fmt: skip
    dead = [result.over_seeds(setting, "dead") for setting in names]
    keys = ("right", "wrong", "dead", "length", "apart", "apart_by_length", "moved")
    free_names = {deep(depth, alpha=0.0): f"{depth}, α = 0" for depth in DEPTHS}
    rows: list[list[Cell]] = [
        [label, *means(result, setting, keys)]
        for setting, label in {**names, **free_names, **CONTROLS}.items()
    ]
    shapes: list[Series] = []
    shape_rows: list[dict[str, Cell]] = []
    for setting, label in names.items():
        curve, more = shape_curve(result, setting, f"depth {label}", depth=label)
        shapes.append(curve)
        shape_rows += more
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
            f"Representations move {way} under {DEPTHS[-1]} layers than under one: "
            f"{said(moved[1])} against {said(moved[0])}. Dead entries, closed for every document: "
            + ", ".join(
                f"{one.mean():.0%} at depth {d}" for d, one in zip(DEPTHS, dead, strict=True)
            )
            + f". Distance between selections over their length goes from {said(ratio[0])} to "
            f"{said(ratio[1])}; without guidance from {said(free[0])} to {said(free[1])}.",
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
            Figure(
                "How far apart selections lie, by depth",
                lines(shapes, "step", "distance between selections / their length"),
                "Line: mean over seeds; band: lowest to highest. In the paper it falls with depth.",
                shape_rows,
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
    rows: list[list[Cell]] = []
    words: list[str] = []
    names = {
        FIXED: "orthogonal, fixed",
        encoded("tfidf"): "TF-IDF of the words",
        encoded("shingles"): "TF-IDF of runs of three",
        encoded("hidden"): "mean hidden state",
        **CONTROLS,
    }
    for setting, label in names.items():
        late: list[Cell] = [None, None]
        found = result.each(setting, lambda fit: fit.newcomers)
        if found:
            gain = np.array([one.gain for one in found])
            late = [float(gain.mean()), float(np.mean([one.named for one in found]))]
            verb = "gains" if gain.min() > 0 else "loses" if gain.max() < 0 else "may gain or lose"
            words.append(f"{label}: an unseen text {verb} ({said(gain, '+.2f')} nats per token)")
        rows.append([label, *means(result, setting, ("right", "wrong", "named")), *late])
    return Section(
        "7 · Representations that are read off the text",
        [
            "Documents with free representations know nothing of each other. An encoder gives an "
            "unseen document a representation without training. " + "; ".join(words) + ".",
            Table(
                "Free representations and encoders",
                ["representation", "right", "wrong", "named", "unseen: gain", "unseen: named"],
                rows,
                f"{len(ENCODERS)} encoders, representations not trained. Unseen: texts that were "
                "not learnt, under the representation the encoder gives them; chance of naming "
                f"one is {1 / (result.documents + 3):.2f}. Means over seeds.",
            ),
        ],
    )
