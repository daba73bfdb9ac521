"""The page of the study `documents`: twelve questions, every sentence computed from the result."""

from __future__ import annotations

import numpy as np

from mnemoscope.plots.figure import heatmap
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.documents.animation import learning_section
from mnemoscope.studies.documents.entries import (
    negatives_section,
    raised_section,
    signs_section,
    sizes_section,
    smooth_section,
)
from mnemoscope.studies.documents.representations import (
    depths_section,
    encoders_section,
    moves_section,
)
from mnemoscope.studies.documents.result import DocumentsResult
from mnemoscope.studies.documents.sentences import LABELS, means, seed_bars
from mnemoscope.studies.documents.settings import (
    ALL_ON,
    ALPHAS,
    COMPARED,
    CONTROLS,
    FIXED,
    FREE,
    GUIDED,
    MANY_SEGMENT,
    MANY_SEGMENTS,
    RANDOM,
    SELECTS,
    Setting,
    behind,
    guided,
    many,
    masked,
)
from mnemoscope.studies.sentences import every, said

NAMES = {
    FREE: "learned, α = 0",
    GUIDED: "learned, α = 0.1",
    FIXED: "representations fixed, α = 0.1",
    RANDOM: "fixed random masks, α = 0",
    masked("disjoint"): "entries of its own, α = 0",
    ALL_ON: "all entries on, α = 0",
    masked("bias"): "one vector a document, α = 0",
}


def page(result: DocumentsResult) -> list[Section]:
    """Build the sections of the page."""
    parts = [
        *(_works, _bias, learning_section, _layers, moves_section, depths_section),
        *(encoders_section, signs_section, raised_section, smooth_section, sizes_section),
        negatives_section,
    ]
    if result.many:
        parts.append(_many)
    return [part(result) for part in parts]


def _works(result: DocumentsResult) -> Section:
    none = result.over_seeds(FREE, "none")
    free, random, guided_wrong = (
        result.over_seeds(setting, "wrong") for setting in (FREE, RANDOM, GUIDED)
    )
    tau = result.over_seeds(GUIDED, "tau")
    every_on = result.over_seeds(ALL_ON, "wrong") - result.over_seeds(ALL_ON, "right")
    later = result.over_seeds(GUIDED, "later_none") - result.over_seeds(GUIDED, "later_right")
    helped = (
        "helps" if later.min() > 0 else ("harms" if later.max() < 0 else "does not surely help")
    )
    names = {name: label for name, label in NAMES.items() if result.has(name)}
    rows: list[list[Cell]] = [
        [label, *means(result, name, ("right", "wrong", "zero", "named"))]
        + [
            float((result.over_seeds(name, none) - result.over_seeds(name, under)).mean())
            for none, under in (("later_none", "later_right"), ("unrelated_none", "unrelated"))
        ]
        for name, label in names.items()
    ]
    unrelated = result.over_seeds(GUIDED, "unrelated") - result.over_seeds(GUIDED, "unrelated_none")
    gaps = [
        result.over_seeds(setting, "wrong") - result.over_seeds(setting, "right")
        for setting in (FREE, RANDOM)
    ]
    masking = f"Right and wrong are {said(gaps[0])} and {said(gaps[1])} apart"
    masking += ": masks separate documents without guidance." if min(map(min, gaps)) > 0 else "."
    kept = " It keeps a text, not a topic." if later.max() < 0.1 else ""
    return Section(
        "1 · Does it work at all?",
        [
            f"{result.documents} documents of {result.segments} segments of "
            f"{result.segment} tokens, {result.entries} entries behind block "
            f"{result.layers[-1]} of {result.model}. Without memory the loss is "
            f"{said(none)}.",
            f"Without guidance the wrong document already gives {said(free)}, worse than no memory "
            f"{every(free > none)}; random masks that nobody learnt give {said(random)}, worse "
            f"than no memory {every(random > none)}. {masking} With guidance the wrong document "
            f"gives {said(guided_wrong)}, where τ asked for {tau.mean():.2f}.",
            f"With all entries on, right and wrong differ by {every_on.max():.3f} at most: "
            "there is nothing left that could tell documents apart.",
            f"On the next segment of the same document, which was not learnt, the memory "
            f"{helped}: {said(later, '+.2f')} nats per token gained.{kept} Under a document, the "
            f"loss of a text that has nothing to do with it changes by {said(unrelated, '+.2f')}"
            + (": set a document for its own text only." if unrelated.min() > 0 else "."),
            seed_bars(
                result,
                "Right, wrong and random document",
                "Loss of the learnt texts.",
                names,
                {"right": "right document", "wrong": "wrong document", "random": "random document"},
            ),
            Table(
                "Who is named",
                ["memory", "right", "wrong", "zero", "named", "next: gain", "unrelated: gain"],
                rows,
                "Zero: a representation of zeros. Named: share of segments whose own document "
                f"gives the lowest loss of all; chance is {1 / result.documents:.2f}. Next: "
                "the segment that follows what was learnt; unrelated: texts nobody learnt, under "
                "the documents; gain: loss without memory minus loss under the document. Means "
                "over seeds.",
            ),
        ],
    )


def _bias(result: DocumentsResult) -> Section:
    words = []
    for select in SELECTS:
        setting = guided(select, 0.0)
        gap = result.over_seeds(setting, "none") - result.over_seeds(setting, "wrong")
        verdict = "contaminates in some seeds"
        if gap.min() > 0 or gap.max() < 0:
            verdict = "contaminates" if gap.min() > 0 else "does not contaminate"
        words.append(f"{LABELS[select]} {verdict} ({said(gap, '+.2f')})")
    strong, sigmoid = guided(alpha=1.0), guided("sigmoid", 1.0)
    cost = result.over_seeds(strong, "right") - result.over_seeds(FREE, "right")
    far = result.over_seeds(sigmoid, "wrong") - result.over_seeds(sigmoid, "tau")
    names = {guided(s, a): f"{LABELS[s]}, α = {a:g}" for s in SELECTS for a in ALPHAS}
    figures = []
    for select in SELECTS:
        one = result.each(guided(select, 0.0), lambda fit: fit.map)[0]
        grid = np.array(one.selection)
        figures.append(
            Figure(
                f"Which entries each document opens, {LABELS[select]}",
                heatmap(grid, list(range(grid.shape[1])), one.names, "entry", "", "gate",
                        centre=0.0),
                f"Seed 0 without guidance; "
                f"{float((np.abs(grid) > 0.1).mean()):.0%} of gates are open.",
                [
                    {"document": name, **{f"e{e}": gate for e, gate in enumerate(row)}}
                    for name, row in zip(one.names, grid.tolist(), strict=True)
                ],
            )
        )  # fmt: skip
    return Section(
        "2 · Is the inductive bias real?",
        [
            "Contamination is what a wrong document still helps at α = 0, loss without memory "
            f"minus loss under the wrong one: {'; '.join(words)}.",
            f"Guidance is not free: from α = 0 to 1 the right document's loss with tanh changes by "
            f"{said(cost, '+.2f')} at the same number of steps. What it buys: with sigmoid and "
            f"α = 1 the wrong document's loss is {said(far, '+.2f')} away from τ.",
            seed_bars(
                result,
                "Selection and strength of guidance",
                "Loss of the learnt texts.",
                names | {k: v for k, v in CONTROLS.items() if k not in names},
                {"right": "right document", "wrong": "wrong document"},
            ),
            *figures,
        ],
    )


def _layers(result: DocumentsResult) -> Section:
    layers = result.layers
    last = dict(zip(COMPARED, (GUIDED, FREE, RANDOM, ALL_ON), strict=True))

    def setting(layer: int, kind: tuple[float, str]) -> Setting:
        return last[kind] if layer == layers[-1] else behind(layer, *kind)

    names = {setting(layer, COMPARED[0]): f"block {layer}" for layer in layers}
    found = [result.over_seeds(name, "right") for name in names]
    best = int(np.argmin([one.mean() for one in found]))
    sure = all(found[best].max() < one.min() for number, one in enumerate(found) if number != best)
    apart = "stay above it in every seed" if sure else "overlap"
    seconds = [float(result.over_seeds(name, "seconds").mean()) for name in names]
    labels = ("α = 0.1", "α = 0", "random masks", "all entries on")
    rows: list[list[Cell]] = [
        [label, which, *(means(result, setting(layer, kind), (which,))[0] for layer in layers)]
        for kind, label in zip(COMPARED, labels, strict=True)
        for which in ("right", "wrong")
    ]
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
            Table(
                "Blocks and controls",
                ["memory", "document", *(f"block {layer}" for layer in layers)],
                rows,
                "Loss, also without guidance, with random masks and with all entries on behind "
                "every block. Means over seeds.",
            ),
        ],
    )


def _many(result: DocumentsResult) -> Section:
    labels = ("learned, α = 0.1", "learned, α = 0", "random masks, α = 0", "all entries on, α = 0")
    keys = ("right", "wrong", "none", "named", "seconds")
    rows: list[list[Cell]] = [
        [count, label, *means(result, many(count, *kind), keys)]
        for count in result.many
        for kind, label in zip(COMPARED, labels, strict=True)
    ]
    words = []
    for count in result.many:
        named, seconds = (result.over_seeds(many(count), key) for key in ("named", "seconds"))
        words.append(
            f"{count} documents are named {said(100 * named, '.1f')} % after "
            f"{said(seconds, '.0f')} CPU seconds of learning"
        )
    return Section(
        "13 · How many documents?",
        [
            "; ".join(words) + ".",
            Table(
                "Many documents",
                ["documents", "memory", "right", "wrong", "none", "named", "CPU seconds"],
                rows,
                f"{MANY_SEGMENTS} segments of {MANY_SEGMENT} tokens each; at "
                "most 200 segments, evenly taken, are named among all documents. Means over "
                "seeds; seconds are those of one thread on the machine that made this page.",
            ),
        ],
    )
