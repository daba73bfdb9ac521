"""Sections of the study `documents` about what entries do, and how the loss depends on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from mnemoscope.plots.figure import Reference, Series, bars, heatmap, lines
from mnemoscope.report.document import Figure, Section, Table
from mnemoscope.studies.documents.sentences import (
    CONTROLS,
    LABELS,
    LOSS,
    Floats,
    Result,
    over_seeds,
    said,
    seed_bars,
)
from mnemoscope.studies.documents.study import NEGATIVES, SELECTS


def signs_section(result: Result) -> Section:
    """Question 8."""
    names = [*(f"{select} α=0.1" for select in ("tanh", "relu")), *CONTROLS]
    kinds = list(result["fits"][names[0]][0]["gates"])
    series, rows = [], []
    for name in names:
        values = np.array([[fit["gates"][kind] for kind in kinds] for fit in result["fits"][name]])
        label = CONTROLS.get(name) or LABELS[name.split()[0]]
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
                "Loss under the right document; α = 0.1 but for the controls with masks of zeros "
                "and ones. Whiskers: lowest to highest seed.",
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
    shares = _raised(result, name)
    first = fits[0]
    series = [
        Series("own words raised", first["names"], first["raised"]),
        Series("others lowered (log Z)", first["names"], first["lowered"]),
    ]
    others = [
        f"{said(100 * _raised(result, other), '.0f')} % with {label.removeprefix('control: ')}"
        for other, label in {"relu α=0.1": "ReLU", **CONTROLS}.items()
    ]
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
            f"{said(100 * shares, '.0f')} % of the gain with tanh, " + ", ".join(others) + ".",
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


def _raised(result: Result, name: str) -> Floats:
    """Share of the gain that is raising own words, one number a seed."""
    fits = [fit["split"] for fit in result["fits"][name]]
    return np.array([sum(f["raised"]) / (sum(f["raised"]) + sum(f["lowered"])) for f in fits])


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
    free = [fit["plane"] for fit in result["fits"]["plane tanh α=0"]]
    rows.append(["tanh, control: α = 0",
                 *(float(np.mean([np.mean(f[key]) for f in free])) for key in ("miss", "half")),
                 float(np.mean([f["steepest"] / f["bound"] for f in free]))])  # fmt: skip
    misses = "; ".join(f"{name} {said(miss)}" for name, miss, _ in words)
    grid_step = 2 / ((len(result["fits"]["plane tanh"][0]["plane"]["ticks"]) - 1) * 2**0.5)
    broken = max(float(share.max()) for _, _, share in words)
    return Section(
        "10 · Is it smooth?",
        [
            f"Distance from a document's own representation to the place of lowest loss, in radii "
            f"of the plane: {misses}. One step of the grid is {grid_step:.2f}. In the paper's "
            "figure tanh is nearest, then ReLU, then sigmoid.",
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


def _between(result: Result) -> Figure:
    """The loss on the line from one representation to another."""
    names = {f"{select} α=0.1": LABELS[select] for select in SELECTS} | CONTROLS
    series, rows = [], []
    for name, label in names.items():
        fits = [fit["line"] for fit in result["fits"][name]]
        shares = fits[0]["share"]
        values = np.array([np.mean(fit["losses"], axis=0) for fit in fits])
        series.append(Series(label, shares, values.mean(0), values.min(0), values.max(0)))
        rows += [
            {"memory": label, "seed": seed, "pair": pair, "share": share, "loss": loss}
            for seed, fit in enumerate(fits)
            for pair, losses in enumerate(fit["losses"])
            for share, loss in zip(shares, losses, strict=True)
        ]
    none = float(over_seeds(result, "tanh α=0.1", "none").mean())
    return Figure(
        "From one document's representation to another's",
        lines(series, "share of the way", LOSS, references=[Reference(none, "no memory")]),
        "Loss of the first document's text; three pairs a seed, α = 0.1 but for the controls, "
        "whose masks are mixed. Line: mean over seeds; band: lowest to highest seed.",
        rows,
    )


def sizes_section(result: Result) -> Section:
    """Question 11."""
    series, rows, words = [], [], []
    names = {f"lengths {select}": LABELS[select] for select in SELECTS}
    names["lengths tanh α=0"] = "tanh, control: α = 0"
    for name, label in names.items():
        fits = [fit["sizes"] for fit in result["fits"][name]]
        found = np.array([np.corrcoef(f["tokens"], f["size"])[0, 1] for f in fits])
        words.append(f"{label} R = {said(found)}")
        tokens = sorted(set(fits[0]["tokens"]))
        sizes = np.array(
            [
                [np.mean([s for t, s in zip(f["tokens"], f["size"], strict=True) if t == at])
                 for at in tokens]
                for f in fits
            ]
        )  # fmt: skip
        series.append(Series(label, tokens, sizes.mean(0), sizes.min(0), sizes.max(0)))
        rows += [
            {"selection": label, "seed": seed, "tokens": t, "size": s, "open": o}
            for seed, f in enumerate(fits)
            for t, s, o in zip(f["tokens"], f["size"], f["on"], strict=True)
        ]
    return Section(
        "11 · Do longer documents open more?",
        [
            "Correlation of a document's length with the sum of its gates' sizes: "
            + "; ".join(words)
            + ". The paper reports 0.97 for tanh, 0.86 for ReLU, 0.79 for sigmoid. Masks that "
            "nobody learns, random or all on, have one size for every length: R = 0 by making.",
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
                "tanh, α = 1 but for the controls.",
                names | CONTROLS,
                {"right": "right document", "wrong": "wrong document", "random": "random document"},
            ),
        ],
    )
