"""The page of the study `documents`: twelve questions, every sentence computed from the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mnemoscope.document import Figure, Section, Table
from mnemoscope.figure import Series, heatmap, lines
from mnemoscope.studies.documents import ALPHAS, DEPTHS, DIMS, SELECTS, STARTS
from mnemoscope.studies.documents_insides import (
    encoders_section,
    negatives_section,
    raised_section,
    signs_section,
    sizes_section,
    smooth_section,
)
from mnemoscope.studies.documents_telling import (
    LABELS,
    Result,
    every,
    over_seeds,
    said,
    seed_bars,
)
from mnemoscope.studies.documents_watch import watching

NAMES = {
    "tanh α=0": "learned, α = 0",
    "tanh α=0.1": "learned, α = 0.1",
    "fixed": "representations fixed, α = 0.1",
    "control random": "fixed random masks, α = 0",
    "control disjoint": "entries of its own, α = 0",
    "control all": "all entries on, α = 0",
}


def tell(result: Result) -> Sequence[Section]:
    """Build the sections of the page."""
    return [
        _works(result),
        _bias(result),
        watching(result),
        _layers(result),
        _moves(result),
        _depths(result),
        encoders_section(result),
        signs_section(result),
        raised_section(result),
        smooth_section(result),
        sizes_section(result),
        negatives_section(result),
    ]


def _works(result: Result) -> Section:
    none = over_seeds(result, "tanh α=0", "none")
    free, random = (
        over_seeds(result, "tanh α=0", "wrong"),
        over_seeds(result, "control random", "wrong"),
    )
    guided = over_seeds(result, "tanh α=0.1", "wrong")
    tau = over_seeds(result, "tanh α=0.1", "tau")
    every_on = over_seeds(result, "control all", "wrong") - over_seeds(
        result, "control all", "right"
    )
    later = over_seeds(result, "tanh α=0.1", "later none") - over_seeds(
        result, "tanh α=0.1", "later right"
    )
    helped = (
        "helps" if later.min() > 0 else ("harms" if later.max() < 0 else "does not surely help")
    )
    names = {name: label for name, label in NAMES.items() if name in result["fits"]}
    rows: list[list[Any]] = [
        [label, *(float(over_seeds(result, name, key).mean()) for key in ("right", "wrong")),
         float(over_seeds(result, name, "named").mean()),
         float(over_seeds(result, name, "later right").mean()),
         float(over_seeds(result, name, "later none").mean())]
        for name, label in names.items()
    ]  # fmt: skip
    gaps = [
        over_seeds(result, name, "wrong") - over_seeds(result, name, "right")
        for name in ("tanh α=0", "control random")
    ]
    masking = f"Right and wrong are {said(gaps[0])} and {said(gaps[1])} apart"
    masking += ": masks separate documents without guidance." if min(map(min, gaps)) > 0 else "."
    kept = " It keeps a text, not a topic." if later.max() < 0.1 else ""
    return Section(
        "1 · Does it work at all?",
        [
            f"{result['documents']} documents of {result['segments']} segments of "
            f"{result['segment']} tokens, {result['entries']} entries behind block "
            f"{result['layers'][-1]} of {result['model']}. Without memory the loss is "
            f"{said(none)}.",
            f"Without guidance the wrong document already gives {said(free)}, worse than no memory "
            f"{every(free > none)}; random masks that nobody learnt give {said(random)}, worse "
            f"than no memory {every(random > none)}. {masking} With guidance the wrong document "
            f"gives {said(guided)}, where τ asked for {tau.mean():.2f}.",
            f"With all entries on, right and wrong differ by {every_on.max():.3f} at most: "
            "there is nothing left that could tell documents apart.",
            f"On the next segment of the same document, which was not learnt, the memory "
            f"{helped}: {said(later, '+.2f')} nats per token gained.{kept}",
            seed_bars(
                result,
                "Right, wrong and random document",
                "Loss of the learnt texts.",
                names,
                {"right": "right document", "wrong": "wrong document", "random": "random document"},
            ),
            Table(
                "Who is named",
                ["memory", "right", "wrong", "named", "next segment", "next, no memory"],
                rows,
                f"Named: share of segments whose own document gives the lowest loss of all; chance "
                f"is {1 / result['documents']:.2f}. Means over seeds.",
            ),
        ],
    )


def _bias(result: Result) -> Section:
    words = []
    for select in SELECTS:
        gap = over_seeds(result, f"{select} α=0", "none") - over_seeds(
            result, f"{select} α=0", "wrong"
        )
        verdict = "contaminates in some seeds"
        if gap.min() > 0 or gap.max() < 0:
            verdict = "contaminates" if gap.min() > 0 else "does not contaminate"
        words.append(f"{LABELS[select]} {verdict} ({said(gap, '+.2f')})")
    cost = over_seeds(result, "tanh α=1", "right") - over_seeds(result, "tanh α=0", "right")
    far = over_seeds(result, "sigmoid α=1", "wrong") - over_seeds(result, "sigmoid α=1", "tau")
    names = {f"{s} α={a:g}": f"{LABELS[s]}, α = {a:g}" for s in SELECTS for a in ALPHAS}
    figures = []
    for select in SELECTS:
        one = result["fits"][f"{select} α=0"][0]["map"]
        grid = np.array(one["selection"])
        figures.append(
            Figure(
                f"Which entries each document opens, {LABELS[select]}",
                heatmap(grid, list(range(grid.shape[1])), one["names"], "entry", "", "gate",
                        centre=0.0),
                f"Seed 0 without guidance; "
                f"{float((np.abs(grid) > 0.1).mean()):.0%} of gates are open.",
                [
                    {"document": name, **{f"e{e}": gate for e, gate in enumerate(row)}}
                    for name, row in zip(one["names"], grid.tolist(), strict=True)
                ],
            )
        )  # fmt: skip
    return Section(
        "2 · Is the inductive bias real?",
        [
            "Contamination is what a wrong document still helps at α = 0, loss without memory "
            f"minus loss under the wrong one: {'; '.join(words)}.",
            f"Guidance is not free: from α = 0 to 1 the right document's loss with tanh changes by "
            f"{said(cost, '+.2f')} at the same number of steps. It pins the wrong document: with "
            f"sigmoid and α = 1 its loss is {said(far, '+.2f')} away from τ.",
            seed_bars(
                result,
                "Selection and strength of guidance",
                "Loss of the learnt texts.",
                names,
                {"right": "right document", "wrong": "wrong document"},
            ),
            *figures,
        ],
    )


def _layers(result: Result) -> Section:
    layers = result["layers"]
    names = {f"layer {layer}": f"block {layer}" for layer in layers}
    found = [over_seeds(result, name, "right") for name in names]
    best = int(np.argmin([one.mean() for one in found]))
    sure = all(found[best].max() < one.min() for place, one in enumerate(found) if place != best)
    apart = "stay above it in every seed" if sure else "overlap"
    seconds = [float(over_seeds(result, name, "seconds").mean()) for name in names]
    return Section(
        "4 · Which layer?",
        [
            f"The lowest loss under the right document is behind block {layers[best]}, "
            f"{said(found[best])}; the others {apart}"
            f". A memory behind block {layers[0]} costs {seconds[0] / seconds[-1]:.1f} times the "
            f"time of one behind block {layers[-1]}, because all above has to be computed.",
            seed_bars(
                result,
                "Loss by depth of the memory",
                "Memory behind one block at a time, tanh, α = 0.1.",
                names,
                {"right": "right document", "wrong": "wrong document"},
            ),
        ],
    )


def _moves(result: Result) -> Section:
    rows: list[list[Any]] = []
    for start in (*STARTS, "sgd"):
        for dim in DIMS:
            name = f"move {start} {dim}"
            rows.append(
                ["SGD, orthogonal" if start == "sgd" else f"Adam, {start}", dim]
                + [float(over_seeds(result, name, key).mean())
                   for key in ("moved", "selection moved", "right", "named")]
            )  # fmt: skip
    small, large = DIMS[0], DIMS[-1]
    unit = [over_seeds(result, f"move random {dim}", "moved") for dim in (small, large)]
    turned = [over_seeds(result, f"move orthogonal {dim}", "moved") for dim in (small, large)]
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
                ["start", "size", "moved", "selection moved", "right", "named"],
                rows,
                "Distance travelled relative to the length at the start, for representations and "
                "for the gates they make. tanh, α = 1, means over seeds.",
            ),
        ],
    )


def _depths(result: Result) -> Section:
    names = {f"depth {depth}": f"{depth}" for depth in DEPTHS}
    first, last = f"depth {DEPTHS[0]}", f"depth {DEPTHS[-1]}"
    moved = [over_seeds(result, name, "moved") for name in (first, last)]
    ratio = [over_seeds(result, name, "apart / length") for name in (first, last)]
    way = "more" if moved[1].min() > moved[0].max() else (
        "less" if moved[1].max() < moved[0].min() else "neither surely more nor less"
    )  # fmt: skip
    dead = [over_seeds(result, name, "dead") for name in names]
    rows: list[list[Any]] = [
        [int(label)]
        + [float(over_seeds(result, name, key).mean())
           for key in ("right", "wrong", "dead", "length", "apart", "apart / length", "moved")]
        for name, label in names.items()
    ]  # fmt: skip
    curves = []
    for name in (first, last):
        for term in ("right", "wrong"):
            tracks = [fit["gradients"] for fit in result["fits"][name]]
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
            f"{said(ratio[1])}.",
            Table(
                "Depth of the map from representation to entries",
                ["depth", "right", "wrong", "dead", "length", "apart", "apart / length", "moved"],
                rows,
                "ReLU, two numbers a document, random negatives, α = 1. Means over seeds.",
            ),
            Figure(
                "Gradient at the representations",
                lines(curves, "step", "norm of the gradient"),
                "The two terms of the loss apart. Line: mean over seeds; band: lowest to highest.",
                [
                    {"setting": name, "seed": seed, **one}
                    for name in (first, last)
                    for seed, fit in enumerate(result["fits"][name])
                    for one in fit["gradients"]
                ],
            ),
        ],
    )
