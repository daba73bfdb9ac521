"""Sections of the study `documents` about representations: do they move, how are they mapped?"""

from __future__ import annotations

from typing import Any

import numpy as np

from mnemoscope.plots.figure import Series, lines
from mnemoscope.report.document import Figure, Section, Table
from mnemoscope.studies.documents.sentences import CONTROLS, Result, means, over_seeds, said
from mnemoscope.studies.documents.study import DEPTHS, DIMS, ENCODERS, STARTS


def moves_section(result: Result) -> Section:
    """Question 5."""
    rows: list[list[Any]] = []
    keys = ("moved", "flipped", "selection moved", "right", "wrong", "named")
    for start in (*STARTS, "sgd"):
        for dim in DIMS:
            name = _move(result, start, dim)
            label = "SGD, orthogonal" if start == "sgd" else f"Adam, {start}"
            rows.append([label, dim, *means(result, name, keys)])
    for name, label in {"fixed": "fixed, α = 0.1", **CONTROLS}.items():
        rows.append([label, result["key_dim"], *means(result, name, keys)])
    small, large = DIMS[0], DIMS[-1]
    unit = [over_seeds(result, f"move random {dim}", "moved") for dim in (small, large)]
    turned = [
        over_seeds(result, _move(result, "orthogonal", dim), "moved") for dim in (small, large)
    ]
    cost = over_seeds(result, "fixed", "right") - over_seeds(result, "tanh α=0.1", "right")
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


def _move(result: Result, start: str, dim: int) -> str:
    """The setting in which representations of ``dim`` numbers begin with ``start``."""
    same = (start, dim) == ("orthogonal", result["key_dim"])
    return "tanh α=1" if same else f"move {start} {dim}"


def depths_section(result: Result) -> Section:
    """Question 6."""
    names = {f"depth {depth}": f"{depth}" for depth in DEPTHS}
    first, last = f"depth {DEPTHS[0]}", f"depth {DEPTHS[-1]}"
    moved = [over_seeds(result, name, "moved") for name in (first, last)]
    ratio = [over_seeds(result, name, "apart / length") for name in (first, last)]
    free = [over_seeds(result, f"{name} α=0", "apart / length") for name in (first, last)]
    pushed = max(
        one["wrong"]
        for name in (first, last)
        for fit in result["fits"][name]
        for one in fit["gradients"]
    )
    way = "more" if moved[1].min() > moved[0].max() else (
        "less" if moved[1].max() < moved[0].min() else "neither surely more nor less"
    )  # fmt: skip
    dead = [over_seeds(result, name, "dead") for name in names]
    keys = ("right", "wrong", "dead", "length", "apart", "apart / length", "moved")
    shown = {**names, **{f"{name} α=0": f"{label}, α = 0" for name, label in names.items()}}
    rows: list[list[Any]] = [
        [label, *means(result, name, keys)] for name, label in {**shown, **CONTROLS}.items()
    ]
    shapes = []
    for name, label in names.items():
        tracks = [fit["shapes"] for fit in result["fits"][name]]
        values = np.array([[one["apart / length"] for one in track] for track in tracks])
        steps = [one["step"] for one in tracks[0]]
        shapes.append(Series(f"depth {label}", steps, values.mean(0), values.min(0), values.max(0)))
    curves = []
    for name in (first, last):
        for term in ("right", "wrong"):
            tracks = [fit["gradients"] for fit in result["fits"][f"{name} other"]]
            values = np.array([[one[term] for one in track] for track in tracks])
            steps = [one["step"] for one in tracks[0]]
            label = f"{'remembering' if term == 'right' else 'guidance'}, depth {names[name]}"
            curves.append(Series(label, steps, values.mean(0), values.min(0), values.max(0)))
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
                [
                    {"depth": label, "seed": seed, **one}
                    for name, label in names.items()
                    for seed, fit in enumerate(result["fits"][name])
                    for one in fit["shapes"]
                ],
            ),
            Figure(
                "Gradient at the representations",
                lines(curves, "step", "norm of the gradient"),
                "The two terms of the loss apart, other documents as negatives. Line: mean over "
                "seeds; band: lowest to highest.",
                [
                    {"setting": name, "seed": seed, **one}
                    for name in (first, last, f"{first} other", f"{last} other")
                    for seed, fit in enumerate(result["fits"][name])
                    for one in fit["gradients"]
                ],
            ),
        ],
    )


def encoders_section(result: Result) -> Section:
    """Question 7."""
    rows = []
    words = []
    for name, label in {
        "fixed": "orthogonal, fixed",
        "encoder tfidf": "TF-IDF of the words",
        "encoder shingles": "TF-IDF of runs of three",
        "encoder hidden": "mean hidden state",
        **CONTROLS,
    }.items():
        fits = result["fits"][name]
        late: list[Any] = [None] * 3
        if "newcomers" in fits[0]:
            found = {
                k: np.array([fit["newcomers"][k] for fit in fits]) for k in fits[0]["newcomers"]
            }
            gain = found["none"] - found["right"]
            late = [float(gain.mean()), float(found["named"].mean()), float(found["wrong"].mean())]
            verb = "gains" if gain.min() > 0 else "loses" if gain.max() < 0 else "may gain or lose"
            words.append(f"{label}: an unseen text {verb} ({said(gain, '+.2f')} nats per token)")
        rows.append([label, *means(result, name, ("right", "wrong", "named")), *late[:2]])
    return Section(
        "7 · Representations that are read off the text",
        [
            "Documents with free representations know nothing of each other. An encoder gives an "
            "unseen document a place without training. " + "; ".join(words) + ".",
            Table(
                "Free representations and encoders",
                ["representation", "right", "wrong", "named", "unseen: gain", "unseen: named"],
                rows,
                f"{len(ENCODERS)} encoders, representations not trained. Unseen: texts that were "
                "not learnt, under the representation the encoder gives them; chance of naming "
                f"one is {1 / (result['documents'] + 3):.2f}. Means over seeds.",
            ),
        ],
    )
