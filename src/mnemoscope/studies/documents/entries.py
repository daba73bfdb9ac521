"""Sections of the study `documents` about what entries do, and how the loss depends on them."""

from __future__ import annotations

import numpy as np

from mnemoscope.plots.figure import Reference, Series, bars, heatmap, lines
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.curves import curves_figure
from mnemoscope.studies.documents.claims import of_lengths, of_negatives, of_signs, of_words
from mnemoscope.studies.documents.result import DocumentsResult, Plane
from mnemoscope.studies.documents.sentences import LABELS, seed_bars, told
from mnemoscope.studies.documents.settings import (
    CONTROLS,
    GUIDED,
    NEGATIVES,
    SELECTS,
    against,
    guided,
    lengths,
    plane,
)
from mnemoscope.studies.sentences import LOSS, band, banded, said


def signs_section(result: DocumentsResult) -> Section:
    """Question 8."""
    changed = []
    names = {guided(select): LABELS[select] for select in ("tanh", "relu")} | CONTROLS
    for setting, label in names.items():
        gates = result.each(setting, lambda fit: fit.gates)
        losses = np.array([list(one.values()) for one in gates])
        of = ("selection", "seed")
        changed.append(banded(label, list(gates[0]), losses, ("gates", "loss"), of))
    none, zero = (result.over_seeds(GUIDED, key) for key in ("none", "zero"))
    gates = result.each(GUIDED, lambda fit: fit.gates)
    turned = np.array([one["negatives made positive"] for one in gates])
    closed = np.array([one["negatives closed"] for one in gates])
    signs = [one.signs for one in result.each(GUIDED, lambda fit: fit.split)]
    table: list[list[Cell]] = [[key, *(one[key] for one in signs)] for key in signs[0]]
    return Section(
        "8 · What do zero and negative gates mean?",
        [
            f"tanh opens {result.over_seeds(GUIDED, 'negative').mean():.0%} of gates "
            f"negatively. Closing those gives a loss of {said(closed)}; making them positive "
            f"gives {said(turned)}, where no memory at all has {said(none)}. "
            f"{told(*of_signs(result))} A representation of zero is not the same as no document: "
            f"it gives {said(zero)}.",
            curves_figure(
                "Gates changed by hand",
                changed,
                ("", LOSS),
                "Loss under the right document; α = 0.1 but for the controls with masks of zeros "
                "and ones. Whiskers: lowest to highest seed.",
                bars,
                references=[Reference(float(none.mean()), "no memory")],
            ),
            Table(
                "Sign of gate and of value",
                ["change", *(f"seed {seed}" for seed in range(len(signs)))],
                table,
                "Change of log p of the word that the widest entry raises, with only that entry "
                "open, for both signs of its value and its gate.",
            ),
        ],
    )


def raised_section(result: DocumentsResult) -> Section:
    """Question 9."""
    splits = result.each(GUIDED, lambda fit: fit.split)
    first = splits[0]
    measured = {"own word": "gain", "average word": "average"}
    if all(one.rival for one in splits):
        measured["likeliest other word"] = "rival"
    settings = {GUIDED: "tanh", guided("relu"): "ReLU", **CONTROLS}
    rows: list[list[Cell]] = []
    for setting, label in settings.items():
        found = result.each(setting, lambda fit: fit.split)
        numbers = [[float(np.mean(getattr(one, of))) for one in found] for of in measured.values()]
        rows.append([label, *(said(np.array(one), "+.2f") for one in numbers)])
    changed: list[dict[str, Cell]] = [
        {
            "seed": seed,
            "document": name,
            **{key: float(getattr(one, of)[number]) for key, of in measured.items()},
        }
        for seed, one in enumerate(splits)
        for number, name in enumerate(one.names)
    ]
    words: list[list[Cell]] = [
        [seed, one.entry, ", ".join(map(repr, one.raises)), ", ".join(map(repr, one.lowers))]
        for seed, one in enumerate(splits)
    ]
    return Section(
        "9 · Raise one's own words, or lower the others?",
        [
            "Logits alone cannot say it: a constant added to all of them changes nothing, and how "
            "much is raised or lowered depends on where their zero is put. Changes of log p do not "
            "depend on it, nor do their differences, the changes of log-odds between two words. "
            + told(*of_words(result)),
            Figure(
                "Change of log p under the right document",
                bars(
                    [
                        Series(name, first.names, getattr(first, of))
                        for name, of in measured.items()
                    ],
                    "",
                    "change of log p (nats per token)",
                ),
                "tanh, α = 0.1, seed 0. Own word: the one that stands there; likeliest other: "
                "without memory; average: mean over the vocabulary.",
                changed,
            ),
            Table(
                "Change of log p",
                ["memory", *measured],
                rows,
                "Nats per token, mean over documents; mean over seeds, lowest to highest.",
            ),
            Table(
                "Words of the widest entry",
                ["seed", "entry", "raises", "lowers"],
                words,
                "The entry that documents open widest on average, read on the direct path.",
            ),
        ],
    )


def smooth_section(result: DocumentsResult) -> Section:
    """Question 10."""
    names = {plane(select): LABELS[select] for select in SELECTS}
    figures: list[Figure] = []
    rows: list[list[Cell]] = []
    misses: list[str] = []
    broken = 0.0
    for setting, label in {**names, plane("tanh", 0.0): "tanh, control: α = 0"}.items():
        planes = result.each(setting, lambda fit: fit.plane)
        miss, half, share = np.array(
            [[np.mean(one.miss), np.mean(one.half), one.steepest / one.bound] for one in planes]
        ).T
        rows.append([label, float(miss.mean()), float(half.mean()), float(share.mean())])
        if setting in names:
            figures.append(_plane(planes[0], label))
            misses.append(f"{label} {said(miss)}")
            broken = max(broken, float(share.max()))
    grid_step = 2 / ((len(planes[0].ticks) - 1) * 2**0.5)
    return Section(
        "10 · Is it smooth?",
        [
            f"Distance from a document's own representation to the point of lowest loss, in radii "
            f"of the plane: {'; '.join(misses)}. One step of the grid is "
            f"{grid_step:.2f}. In the paper's figure tanh is nearest, then ReLU, then sigmoid.",
            "How fast selections may change is bounded by σ_max(W) · Lipschitz constant of the "
            f"activation: the steepest pair reaches {broken:.0%} of it.",
            *figures,
            Table(
                "Smoothness in the plane",
                ["selection", "miss", "share under half height", "steepest / bound"],
                rows,
                "Two numbers a document, α = 0.1 where nothing else is said, three documents each, "
                "means over seeds. Masks that nobody learns have no plane.",
            ),
            _between(result),
        ],
    )


def _plane(one: Plane, label: str) -> Figure:
    """The loss of the first document over the plane."""
    ticks = [round(tick, 2) for tick in one.ticks]
    return Figure(
        f"Loss over the plane of representations, {label}",
        heatmap(one.maps[0], ticks, ticks, "first number", "second number", "loss"),
        f"Seed 0, document {one.names[0]!r}, whose own representation is at "
        f"({one.keys[0][0]:.2f}, {one.keys[0][1]:.2f}).",
        [
            {"first": x, "second": y, "loss": value}
            for y, row in zip(ticks, one.maps[0], strict=True)
            for x, value in zip(ticks, row, strict=True)
        ],
    )


def _between(result: DocumentsResult) -> Figure:
    """The loss on the line from one representation to another."""
    series: list[Series] = []
    rows: list[dict[str, Cell]] = []
    for setting, label in (
        {guided(select): LABELS[select] for select in SELECTS} | CONTROLS
    ).items():
        found = result.each(setting, lambda fit: fit.line)
        series.append(band(label, found[0].share, [np.mean(one.losses, axis=0) for one in found]))
        rows += [
            {"memory": label, "seed": seed, "pair": pair, "share": share, "loss": loss}
            for seed, one in enumerate(found)
            for pair, losses in enumerate(one.losses)
            for share, loss in zip(one.share, losses, strict=True)
        ]
    none = float(result.over_seeds(GUIDED, "none").mean())
    return Figure(
        "From one document's representation to another's",
        lines(series, "share of the way", LOSS, references=[Reference(none, "no memory")]),
        "Loss of the first document's text; three pairs a seed, α = 0.1 but for the controls, "
        "whose masks are mixed. Line: mean over seeds; band: lowest to highest seed.",
        rows,
    )


def sizes_section(result: DocumentsResult) -> Section:
    """Question 11."""
    series: list[Series] = []
    rows: list[dict[str, Cell]] = []
    names = {lengths(select): LABELS[select] for select in SELECTS}
    names[lengths("tanh", 0.0)] = "tanh, control: α = 0"
    for setting, label in names.items():
        found = result.each(setting, lambda fit: fit.sizes)
        tokens = sorted(set(found[0].tokens))
        sizes = [
            [np.mean(np.array(one.size)[np.array(one.tokens) == at]) for at in tokens]
            for one in found
        ]
        series.append(band(label, tokens, sizes))
        rows += [
            {"selection": label, "seed": seed, "tokens": t, "size": s, "open": o}
            for seed, one in enumerate(found)
            for t, s, o in zip(one.tokens, one.size, one.on, strict=True)
        ]
    return Section(
        "11 · Do longer documents open more?",
        [
            "Correlation of a document's length with the sum of its gates' sizes. "
            + told(*of_lengths(result))
            + " The paper reports 0.97 for tanh, 0.86 for ReLU, 0.79 for sigmoid. Masks that "
            "nobody learns, random or all on, have one size for every length: R = 0 by making.",
            Figure(
                "Size of the selection against length",
                lines(series, "tokens of the document", "sum of the sizes of its gates"),
                "Line: mean over seeds; band: lowest to highest seed.",
                rows,
            ),
        ],
    )


def negatives_section(result: DocumentsResult) -> Section:
    """Question 12."""
    strong = guided(alpha=1.0)
    names = {strong: "other"} | {against(negative): negative for negative in NEGATIVES[1:]}
    wrong = {label: result.over_seeds(setting, "wrong") for setting, label in names.items()}
    random = {label: result.over_seeds(setting, "random") for setting, label in names.items()}
    tau = float(result.over_seeds(strong, "tau").mean())
    return Section(
        "12 · Which negatives?",
        [
            f"τ asks for {tau:.2f} under the wrong document. {told(*of_negatives(result))} "
            f"Random negatives push random representations to {said(random['random'])} and other "
            f"documents to {said(wrong['random'])}; with other documents as negatives it is "
            f"{said(random['other'])} and {said(wrong['other'])}.",
            seed_bars(
                result,
                "Wrong and random document by kind of negative",
                "tanh, α = 1 but for the controls.",
                names | CONTROLS,
                {"right": "right document", "wrong": "wrong document", "random": "random document"},
            ),
        ],
    )
