"""The page of the study `lag`: every figure and every sentence is computed from its result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemoscope.plots.figure import Reference, Region, Series, lines
from mnemoscope.report.document import Figure, Section, Table
from mnemoscope.studies.lag.closeups import gates_section, spelling_section
from mnemoscope.studies.sentences import SIGNS, ranked
from mnemoscope.studies.study import label

Floats = NDArray[np.float64]


def tell(result: dict[str, Any], runs: Path) -> Sequence[Section]:
    """Build the sections of the page."""
    return [
        _recall(result),
        _sweep(result),
        _sizes(result),
        gates_section(result, runs),
        spelling_section(result),
    ]


def curves(result: dict[str, Any], memory: str, what: str) -> Floats:
    """``accuracy`` or ``bits`` of one memory at its chosen learning rate, (seeds, waits).

    A training that diverged counts as knowing nothing.
    """
    lost = 1 / result["symbols"] if what == "accuracy" else 0.0
    nothing = [lost] * len(result["waits"])
    rate = result["models"][memory]["lr"]
    rows = [r for r in result["trials"] if r["memory"] == memory and r["lr"] == rate]
    return np.array([row.get(what, nothing) for row in rows])


def half_lives(result: dict[str, Any], memory: str) -> list[int]:
    """Per seed, the longest wait up to which accuracy stays half-way above chance; 0 if none."""
    chance = 1 / result["symbols"]
    lives = []
    for accuracy in curves(result, memory, "accuracy"):
        life = 0
        for wait, value in zip(result["waits"], accuracy, strict=True):
            if value < (1 + chance) / 2:
                break
            life = wait
        lives.append(life)
    return lives


def ranking(result: dict[str, Any], wait: int) -> str:
    """Order the memories at one wait."""
    place = result["waits"].index(wait)
    return ranked({label(m): curves(result, m, "accuracy")[:, place] for m in result["models"]})


def _lived(result: dict[str, Any], memory: str) -> str:
    lives, longest = half_lives(result, memory), result["waits"][-1]
    low, high = min(lives), max(lives)
    if low == longest:
        return f"{label(memory)} still recalls after {longest} tokens, the longest wait tested"
    if high == 0:
        return f"{label(memory)} is below half-way to chance after the shortest wait already"
    span = f"{low} tokens" if low == high else f"{low} to {high} tokens, by seed"
    return f"{label(memory)} stays above half-way to chance for {span}"


def _recall(result: dict[str, Any]) -> Section:
    waits, trained = result["waits"], result["trained"]
    chance, most = 1 / result["symbols"], result["items"] * math.log2(result["symbols"])
    seeds = len(curves(result, next(iter(result["models"])), "accuracy"))
    inside = max(wait for wait in waits if wait <= trained)
    seen = [
        f"Order after a wait of {inside}, the longest tested within what was trained: "
        f"{ranking(result, inside)}.",
        f"Order after {waits[-1]} tokens: {ranking(result, waits[-1])}.",
        f"{SIGNS} " + "; ".join(_lived(result, memory) for memory in result["models"]) + ".",
    ]
    beyond = _beyond(result, inside)
    if beyond:
        seen.append(beyond)
    region = Region(waits[0], trained, "waits seen in training")
    spread = f"Line: mean of {seeds} seeds; band: lowest to highest seed."
    return Section(
        "What was seen",
        [
            *seen,
            Figure(
                "Recall against wait",
                lines(
                    _series(result, "accuracy"),
                    "wait (tokens between showing and asking)",
                    "accuracy",
                    references=[Reference(chance, "chance")],
                    region=region,
                    log_x=True,
                    y_range=(0, 1.03),
                ),
                f"Share of symbols repeated correctly. {spread}",
                _rows(result, "accuracy"),
            ),
            Figure(
                "Bits against wait",
                lines(
                    _series(result, "bits"),
                    "wait (tokens between showing and asking)",
                    "bits recalled per episode",
                    references=[Reference(most, "all that was shown")],
                    region=region,
                    log_x=True,
                    y_range=(0, most * 1.05),
                ),
                "The same in bits: what the answers cost less than guessing, "
                f"max(0, log₂ {result['symbols']} − cross-entropy) for each of "
                f"{result['items']} symbols. {spread}",
                _rows(result, "bits"),
            ),
        ],
    )


def _beyond(result: dict[str, Any], inside: int) -> str:
    """What became of those that had learnt the task once the wait left the trained range."""
    here, end = result["waits"].index(inside), len(result["waits"]) - 1
    kept: list[str] = []
    lost: list[str] = []
    for memory in result["models"]:
        accuracy = curves(result, memory, "accuracy")
        if accuracy[:, here].mean() < 0.9:
            continue
        fell = accuracy[:, here].mean() - accuracy[:, end].mean()
        (kept if fell < 0.05 else lost).append(label(memory))
    text = []
    if kept:
        text.append(f"{' and '.join(kept)} carried what they had learnt beyond the trained waits")
    if lost:
        text.append(f"{' and '.join(lost)} knew the task within the trained waits and lost it past")
    return "; ".join(text) + "." if text else ""


def _series(result: dict[str, Any], what: str) -> list[Series]:
    found = [(memory, curves(result, memory, what)) for memory in result["models"]]
    waits = result["waits"]
    return [Series(label(m), waits, v.mean(0), v.min(0), v.max(0)) for m, v in found]


def _rows(result: dict[str, Any], what: str) -> list[dict[str, Any]]:
    return [
        {"model": label(memory), "seed": seed, "wait": wait, what: value}
        for memory in result["models"]
        for seed, values in enumerate(curves(result, memory, what))
        for wait, value in zip(result["waits"], values, strict=True)
    ]


def _sweep(result: dict[str, Any]) -> Section:
    series, rows, diverged = [], [], 0
    for memory in result["models"]:
        tries = [row for row in result["trials"] if row["memory"] == memory]
        diverged += sum("diverged" in row for row in tries)
        rates = sorted({row["lr"] for row in tries})
        found = [[r.get("choosing_bits", 0.0) for r in tries if r["lr"] == lr] for lr in rates]
        values = np.array(found)
        series.append(Series(label(memory), rates, values.mean(1), values.min(1), values.max(1)))
        rows += [
            {"model": label(memory), "lr": row["lr"], "seed": row["seed"]}
            | {"bits": row.get("choosing_bits"), "diverged": row.get("diverged", "")}
            for row in tries
        ]
    best = ", ".join(f"{label(m)} {facts['lr']:g}" for m, facts in result["models"].items())
    means = [float(np.max(s.y) - np.min(s.y)) for s in series]
    widest = series[int(np.argmax(means))].name
    return Section(
        "The learning rate decides",
        [
            f"Each memory was trained with every learning rate and is shown above at its own best "
            f"one: {best}. The choice moves {widest} by {max(means):.1f} bits. "
            f"Trainings that diverged: {diverged} of {len(result['trials'])}. {_edge(result)}",
            Figure(
                "Bits against learning rate",
                lines(
                    series, "learning rate", "bits recalled within the trained waits", log_x=True
                ),
                "Mean over the waits seen in training, on held-out episodes that the curves above "
                "do not use. Band: lowest to highest seed.",
                rows,
            ),
        ],
    )


def _edge(result: dict[str, Any]) -> str:
    """Say whose best rate lies at an end of the sweep, where a better one may be just outside."""
    rates = sorted({row["lr"] for row in result["trials"]})
    if len(rates) < 2:
        return "There was one rate only: nothing was swept."
    ends = {rates[0]: "lowest", rates[-1]: "highest"}
    at_end = [
        f"that of {label(memory)} is the {ends[facts['lr']]} tried"
        for memory, facts in result["models"].items()
        if facts["lr"] in ends
    ]
    if not at_end:
        return "No best rate lies at an end of the sweep."
    return f"Of the best rates, {' and '.join(at_end)}: beyond it there may be a better one."


def _sizes(result: dict[str, Any]) -> Section:
    waits, trained = result["waits"], result["trained"]
    inside = waits.index(max(wait for wait in waits if wait <= trained))
    near, far = waits[inside], waits[-1]
    carried, kept = [], []
    for memory, facts in result["models"].items():
        accuracy = curves(result, memory, "accuracy").mean(0)
        lives = half_lives(result, memory)
        seconds = [
            row["seconds"]
            for row in result["trials"]
            if row["memory"] == memory and row["lr"] == facts["lr"] and "seconds" in row
        ]
        name, state = label(memory), facts["state_bytes"]
        shape = f"{facts['layers']} × {facts['width']}"
        carried.append([name, facts["parameters"], shape, state[inside], state[-1]])
        life = f"{min(lives)} to {max(lives)}" if min(lives) < max(lives) else str(lives[0])
        time = float(np.mean(seconds)) if seconds else None
        kept.append([name, f"{facts['lr']:g}", accuracy[inside], accuracy[-1], life, time])
    sizes = [facts["parameters"] for facts in result["models"].values()]
    return Section(
        "What each carries",
        [
            f"All models have between {min(sizes)} and {max(sizes)} parameters. The state is all "
            "that goes from one token to the next, measured in bytes per stream. A recurrent state "
            "has one size; that of a Transformer grows with every token read.",
            Table(
                "Size of model and state",
                ["model", "parameters", "layers × width", f"bytes after {near}", f"after {far}"],
                carried,
                "Bytes of state of one stream when the question comes, by length of the wait.",
            ),
            Table(
                "What was kept",
                ["model", "lr", f"accuracy at {near}", f"at {far}", "half-life", "training s"],
                kept,
                "Half-life: longest wait up to which accuracy stays half-way between chance and "
                "1, by seed. Training time of one model on one thread.",
            ),
        ],
    )
