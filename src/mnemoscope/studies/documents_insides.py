"""The second half of the page of the study `documents`: what entries and representations do."""

from __future__ import annotations

from typing import Any

import numpy as np

from mnemoscope.document import Figure, Section, Table
from mnemoscope.figure import Reference, Series, bars, heatmap, lines
from mnemoscope.studies.documents import ENCODERS, NEGATIVES, SELECTS
from mnemoscope.studies.documents_telling import (
    LABELS,
    LOSS,
    Result,
    over_seeds,
    said,
    seed_bars,
)


def encoders_section(result: Result) -> Section:
    """Question 7."""
    rows = []
    words = []
    for name, label in {
        "fixed": "orthogonal, fixed",
        "encoder tfidf": "TF-IDF of the words",
        "encoder hidden": "mean hidden state",
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
        means = [float(over_seeds(result, name, key).mean()) for key in ("right", "wrong", "named")]
        rows.append([label, *means, *late[:2]])
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
                "not learnt, under the representation the encoder gives them. Means over seeds.",
            ),
        ],
    )


def signs_section(result: Result) -> Section:
    """Question 8."""
    names = [f"{select} α=0.1" for select in ("tanh", "relu")]
    kinds = list(result["fits"][names[0]][0]["gates"])
    series, rows = [], []
    for name in names:
        values = np.array([[fit["gates"][kind] for kind in kinds] for fit in result["fits"][name]])
        label = LABELS[name.split()[0]]
        series.append(Series(label, kinds, values.mean(0), values.min(0), values.max(0)))
        rows += [
            {"selection": label, "seed": seed, "gates": kind, "loss": value}
            for seed, row in enumerate(values.tolist())
            for kind, value in zip(kinds, row, strict=True)
        ]
    none = over_seeds(result, names[0], "none")
    gates = result["fits"][names[0]]
    turned = np.array([fit["gates"]["negatives made positive"] for fit in gates])
    closed = np.array([fit["gates"]["negatives closed"] for fit in gates])
    zero = over_seeds(result, names[0], "zero")
    signs = [fit["split"]["signs"] for fit in gates]
    table = [[key, *(float(one[key]) for one in signs)] for key in signs[0]]
    contrary = ""
    if turned.min() > none.max():
        contrary = " A negative gate says the contrary of a positive one, not less of it."
    return Section(
        "8 · What do zero and negative gates mean?",
        [
            f"tanh opens {over_seeds(result, names[0], 'negative').mean():.0%} of gates "
            f"negatively. Closing those gives a loss of {said(closed)}; making them positive "
            f"gives {said(turned)}, where no memory at all has {said(none)}.{contrary} A "
            f"representation of zero is not the same as no document: it gives {said(zero)}.",
            Figure(
                "Gates changed by hand",
                bars(series, "", LOSS, references=[Reference(float(none.mean()), "no memory")]),
                "Loss under the right document. Whiskers: lowest to highest seed.",
                rows,
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


def raised_section(result: Result) -> Section:
    """Question 9."""
    name = "tanh α=0.1"
    fits = [fit["split"] for fit in result["fits"][name]]
    shares = np.array([sum(f["raised"]) / (sum(f["raised"]) + sum(f["lowered"])) for f in fits])
    first = fits[0]
    series = [
        Series("own words raised", first["names"], first["raised"]),
        Series("others lowered (log Z)", first["names"], first["lowered"]),
    ]
    relu = [fit["split"] for fit in result["fits"]["relu α=0.1"]]
    other = np.array([sum(f["raised"]) / (sum(f["raised"]) + sum(f["lowered"])) for f in relu])
    words = [
        [
            seed,
            one["entry"],
            ", ".join(map(repr, one["raises"])),
            ", ".join(map(repr, one["lowers"])),
        ]
        for seed, one in enumerate(fits)
    ]
    return Section(
        "9 · Raise one's own words, or lower the others?",
        [
            f"log p = logit − log Z, exactly. Raising the document's own words makes "
            f"{said(100 * shares, '.0f')} % of the gain with tanh, {said(100 * other, '.0f')} % "
            "with ReLU.",
            Figure(
                "Where the gain comes from",
                bars(series, "", "gain (nats per token)"),
                "tanh, α = 0.1, seed 0; logits centred over the vocabulary.",
                [
                    {"seed": seed, "document": n, "raised": r, "lowered": low}
                    for seed, one in enumerate(fits)
                    for n, r, low in zip(one["names"], one["raised"], one["lowered"], strict=True)
                ],
            ),
            Table(
                "Words of the widest entry",
                ["seed", "entry", "raises", "lowers"],
                words,
                "The entry that documents open widest on average, read on the direct path.",
            ),
        ],
    )


def smooth_section(result: Result) -> Section:
    """Question 10."""
    figures, words = [], []
    rows: list[list[Any]] = []
    for select in SELECTS:
        fits = [fit["plane"] for fit in result["fits"][f"plane {select}"]]
        one = fits[0]
        ticks = [round(tick, 2) for tick in one["ticks"]]
        grid = np.array(one["maps"][0])
        figures.append(
            Figure(
                f"Loss over the plane of representations, {LABELS[select]}",
                heatmap(grid, ticks, ticks, "first number", "second number", "loss"),
                f"Seed 0, document {one['names'][0]!r}, whose own representation is at "
                f"({one['keys'][0][0]:.2f}, {one['keys'][0][1]:.2f}).",
                [
                    {"first": x, "second": y, "loss": value}
                    for y, row in zip(ticks, grid.tolist(), strict=True)
                    for x, value in zip(ticks, row, strict=True)
                ],
            )
        )
        miss = np.array([np.mean(f["miss"]) for f in fits])
        half = np.array([np.mean(f["half"]) for f in fits])
        share = np.array([f["steepest"] / f["bound"] for f in fits])
        rows.append([LABELS[select], float(miss.mean()), float(half.mean()), float(share.mean())])
        words.append((LABELS[select], miss, share))
    misses = "; ".join(f"{name} {said(miss)}" for name, miss, _ in words)
    grid_step = 2 / ((len(result["fits"]["plane tanh"][0]["plane"]["ticks"]) - 1) * 2**0.5)
    broken = max(float(share.max()) for _, _, share in words)
    return Section(
        "10 · Is it smooth?",
        [
            f"Distance from a document's own representation to the place of lowest loss, in radii "
            f"of the plane: {misses}. One step of the grid is {grid_step:.2f}. In the paper's "
            "figure tanh is nearest, then ReLU, then sigmoid.",
            f"Selections never change faster than the bound σ_max(W) · Lipschitz constant of the "
            f"activation: the steepest pair reaches {broken:.0%} of it.",
            *figures,
            Table(
                "Smoothness in the plane",
                ["selection", "miss", "share under half height", "steepest / bound"],
                rows,
                "Two numbers a document, α = 0.1, three documents each, means over seeds.",
            ),
        ],
    )


def sizes_section(result: Result) -> Section:
    """Question 11."""
    series, rows, words = [], [], []
    for select in SELECTS:
        fits = [fit["sizes"] for fit in result["fits"][f"lengths {select}"]]
        found = np.array([np.corrcoef(f["tokens"], f["size"])[0, 1] for f in fits])
        words.append(f"{LABELS[select]} R = {said(found)}")
        tokens = sorted(set(fits[0]["tokens"]))
        sizes = np.array(
            [
                [np.mean([s for t, s in zip(f["tokens"], f["size"], strict=True) if t == at])
                 for at in tokens]
                for f in fits
            ]
        )  # fmt: skip
        series.append(Series(LABELS[select], tokens, sizes.mean(0), sizes.min(0), sizes.max(0)))
        rows += [
            {"selection": LABELS[select], "seed": seed, "tokens": t, "size": s, "open": o}
            for seed, f in enumerate(fits)
            for t, s, o in zip(f["tokens"], f["size"], f["on"], strict=True)
        ]
    return Section(
        "11 · Do longer documents open more?",
        [
            "Correlation of a document's length with the sum of its gates' sizes: "
            + "; ".join(words)
            + ". The paper reports 0.97 for tanh, 0.86 for ReLU, 0.79 for sigmoid.",
            Figure(
                "Size of the selection against length",
                lines(series, "tokens of the document", "sum of the sizes of its gates"),
                "Line: mean over seeds; band: lowest to highest seed.",
                rows,
            ),
        ],
    )


def negatives_section(result: Result) -> Section:
    """Question 12."""
    names = {"tanh α=1": "other"} | {f"negative {n}": n for n in NEGATIVES[1:]}
    wrong = {label: over_seeds(result, name, "wrong") for name, label in names.items()}
    random = {label: over_seeds(result, name, "random") for name, label in names.items()}
    tau = float(over_seeds(result, "tanh α=1", "tau").mean())
    near = min(wrong, key=lambda one: abs(wrong[one].mean() - tau))
    return Section(
        "12 · Which negatives?",
        [
            f"τ asks for {tau:.2f} under the wrong document; nearest comes {near}, "
            f"{said(wrong[near])}. "
            f"Random negatives push random representations to {said(random['random'])} and other "
            f"documents to {said(wrong['random'])}; with other documents as negatives it is "
            f"{said(random['other'])} and {said(wrong['other'])}.",
            seed_bars(
                result,
                "Wrong and random document by kind of negative",
                "tanh, α = 1.",
                names,
                {"right": "right document", "wrong": "wrong document", "random": "random document"},
            ),
        ],
    )
