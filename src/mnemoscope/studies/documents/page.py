"""The page of the study `documents`: claims, then questions, all computed from the result."""

from __future__ import annotations

import numpy as np

from mnemoscope.plots.figure import heatmap
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.documents.animation import learning_section
from mnemoscope.studies.documents.claims import (
    claims_section,
    gate,
    less,
    of_bias,
    of_layers,
    of_working,
)
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
from mnemoscope.studies.documents.sentences import LABELS, gate_rows, means, seed_bars, told
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
from mnemoscope.studies.findings import lead, not_passed
from mnemoscope.studies.sentences import said

# Short enough to stand side by side.
NAMES = {
    FREE: "unguided",
    GUIDED: "guided",
    FIXED: "guided, fixed",
    RANDOM: "random masks",
    masked("disjoint"): "own entries",
    ALL_ON: "all entries on",
    masked("bias"): "one vector",
}
KINDS = (
    "Guided: α = 0.1, all others α = 0. Fixed: representations do not move; random masks: drawn, "
    "never learnt; own entries: no entry serves two documents; one vector: that is all a document "
    "has."
)


def page(result: DocumentsResult) -> list[Section]:
    """Build the sections of the page."""
    found = lead(_found(result), _right_and_wrong(result))
    parts = [
        claims_section,
        *(_works, _bias, learning_section, _layers, moves_section, depths_section),
        *(encoders_section, signs_section, raised_section, smooth_section, sizes_section),
        negatives_section,
    ]
    if result.many:
        parts.append(_many)
    return [found, *(part(result) for part in parts)]


def _found(result: DocumentsResult) -> list[str]:
    """The sentences of the finding."""
    failed = not_passed(gate(result, GUIDED))
    if failed:
        return [f"Whether the model keeps texts by name cannot be told: {failed}."]
    right, wrong, none, own = (
        result.over_seeds(GUIDED, key).mean() for key in ("right", "wrong", "none", "named")
    )
    apart, free, random, every_on = (
        less(result, one, "wrong", "right").mean() for one in (GUIDED, FREE, RANDOM, ALL_ON)
    )
    later = of_working(result)[-2]
    gain = np.mean(later.effects)
    kept = {
        "seen": f"its topic too: what follows a learnt text gains {gain:.2f} nats per token",
        "opposite": f"a text, not its topic: what follows it loses {-gain:.2f} nats per token",
    }
    unsure = f"a text; that its topic is kept cannot be said ({gain:+.2f} nats for what follows)"
    return [
        f"Yes: with its own document chosen a text has a loss of {right:.2f} nats per token, with "
        f"another document {wrong:.2f}, without memory {none:.2f}; in {100 * own:.0f} % of "
        f"segments the own one is lowest (chance {100 / result.documents:.0f} %).",
        f"Of the {apart:.2f} nats between wrong and right, guidance gives {apart - free:.2f}; "
        f"random masks that nobody learnt give {random:.2f}, all entries on {every_on:.2f}.",
        f"The memory keeps {kept.get(later.verdict, unsure)}.",
    ]


def _right_and_wrong(result: DocumentsResult) -> Figure:
    return seed_bars(
        result,
        "Right, wrong and random document",
        f"Loss of the learnt texts. {KINDS}",
        {name: label for name, label in NAMES.items() if result.has(name)},
        {"right": "right document", "wrong": "wrong document", "random": "random document"},
    )


def _works(result: DocumentsResult) -> Section:
    none = result.over_seeds(FREE, "none")
    free, random, guided_wrong = (
        result.over_seeds(setting, "wrong") for setting in (FREE, RANDOM, GUIDED)
    )
    tau = result.over_seeds(GUIDED, "tau")
    every_on = result.over_seeds(ALL_ON, "wrong") - result.over_seeds(ALL_ON, "right")
    _, masks_part, _, wrong_harms, _, guidance_pins, *topic = of_working(result)
    names = {name: label for name, label in NAMES.items() if result.has(name)}
    rows: list[list[Cell]] = [
        [label, *means(result, name, ("right", "wrong", "zero", "named"))]
        + [
            float((result.over_seeds(name, none) - result.over_seeds(name, under)).mean())
            for none, under in (("later_none", "later_right"), ("unrelated_none", "unrelated"))
        ]
        for name, label in names.items()
    ]
    return Section(
        "1 · Does it work at all?",
        [
            f"{result.documents} documents of {result.segments} segments of "
            f"{result.segment} tokens, {result.entries} entries behind block "
            f"{result.layers[-1]} of {result.model}. Without memory the loss is "
            f"{said(none)}.",
            f"Without guidance the wrong document gives {said(free)}, with random masks that "
            f"nobody learnt {said(random)}, with guidance {said(guided_wrong)}, where τ asked for "
            f"{tau.mean():.2f}. {told(masks_part, wrong_harms, guidance_pins)}",
            f"With all entries on, right and wrong differ by {every_on.max():.3f} at most: "
            "there is nothing left that could tell documents apart.",
            f"Does it keep a topic, or a text? {told(*topic)}",
            Table(
                "Which document is identified",
                ["memory", "right", "wrong", "zero", "identified", "next: gain", "unrelated: gain"],
                rows,
                f"{KINDS} Zero: a representation of zeros. Identified: share of segments whose own "
                f"document gives the lowest loss; chance is {1 / result.documents:.2f}. Next: "
                "the segment that follows what was learnt; unrelated: texts nobody learnt, with "
                "the documents; gain: loss without memory minus loss with the document. Means "
                "over seeds.",
            ),
        ],
    )


def _bias(result: DocumentsResult) -> Section:
    *contaminates, costs = of_bias(result)
    sigmoid = guided("sigmoid", 1.0)
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
                gate_rows(one.names, one.selection),
            )
        )  # fmt: skip
    return Section(
        "2 · Is the inductive bias real?",
        [
            "Contamination is what a wrong document still helps at α = 0, loss without memory "
            f"minus loss under the wrong one. {told(*contaminates)}",
            f"{told(costs)} What it buys: with sigmoid and α = 1 the wrong document's loss "
            f"is {said(far, '+.2f')} away from τ.",
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
    seconds = [float(result.over_seeds(name, "seconds").mean()) for name in names]
    labels = ("α = 0.1", "α = 0", "random masks", "all entries on")
    rows: list[list[Cell]] = [
        [label, which, *(means(result, setting(layer, kind), (which,))[0] for layer in layers)]
        for kind, label in zip(COMPARED, labels, strict=True)
        for which in ("right", "wrong")
    ]
    if result.has(behind(layers[-1], negative="random")):
        random = [behind(layer, negative="random") for layer in layers]
        rows += [
            [
                "α = 0.1, random negatives",
                which,
                *(means(result, one, (which,))[0] for one in random),
            ]
            for which in ("right", "wrong")
        ]
    return Section(
        "4 · Which layer?",
        [
            f"{told(*of_layers(result))} A memory behind block {layers[0]} costs "
            f"{seconds[0] / seconds[-1]:.1f} times the time of one behind block {layers[-1]}, "
            "because all above has to be computed.",
            seed_bars(
                result,
                "Loss by depth of the memory",
                "Memory behind one block at a time, tanh, α = 0.1, other documents as negatives.",
                names,
                {"right": "right document", "wrong": "wrong document"},
            ),
            Table(
                "Blocks and controls",
                ["memory", "document", *(f"block {layer}" for layer in layers)],
                rows,
                "Loss, also without guidance, with random masks, with all entries on and with "
                "random negatives behind every block. Means over seeds.",
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
            f"{count} documents are identified {said(100 * named, '.1f')} % after "
            f"{said(seconds, '.0f')} CPU seconds of learning"
        )
    return Section(
        "13 · How many documents?",
        [
            "; ".join(words) + ".",
            Table(
                "Many documents",
                ["documents", "memory", "right", "wrong", "none", "identified", "CPU seconds"],
                rows,
                f"{MANY_SEGMENTS} segments of {MANY_SEGMENT} tokens each; at "
                "most 200 segments, evenly taken, are identified among all documents. Means over "
                "seeds; seconds are those of one thread on the machine that made this page.",
            ),
        ],
    )
