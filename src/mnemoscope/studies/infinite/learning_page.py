"""The part of the page on novels that is of what learnt: its rates, what its memory is worth."""

from __future__ import annotations

import math

import numpy as np

from mnemoscope.core.statistics import bootstrap
from mnemoscope.report.claims import Claim, claims_table
from mnemoscope.report.document import Cell, Section, Table
from mnemoscope.studies.infinite.labels import LABELS, LEARNT
from mnemoscope.studies.infinite.result import NovelLosses, Novels

# Nats per token that count: one in a hundred tokens at half its surprise is more.
LEAST = 0.01


def learning_sections(novels: Novels) -> list[Section]:
    """What learnt, if anything did."""
    learnt = {kind: one for kind in LEARNT if (one := novels.find(kind)) is not None}
    if not learnt:
        return []
    parts: list[str | Table] = [
        f"Densities and LoRA learnt from {novels.trained:,} tokens of the other novels, one "
        "training each; the base is frozen. Both carry half a window whole besides. A memory has "
        "to save more than LoRA does, and more with its own state than with another book's: the "
        "rest is getting used to novels.",
        claims_table("Is it memory?", _claims(learnt)),
    ]
    if novels.tried:
        parts.append(_rates(novels))
    return [Section("5 · What learns", parts)]


def _claims(learnt: dict[str, NovelLosses]) -> list[Claim]:
    lora = learnt.get("lora")
    found = []
    for kind, reading in learnt.items():
        if kind == "lora":
            continue
        label = _full(kind)
        if lora is not None:
            less = lora.nats() - reading.nats()
            found.append(_claim(f"{label}: saves more than LoRA without memory", less))
        more = reading.nats("other") - reading.nats()
        found.append(_claim(f"{label}: its own state saves something over another book's", more))
    return found


def _claim(text: str, saved: np.ndarray) -> Claim:
    """What counts is the end of the interval over passages that is nearest to nothing."""
    over = bootstrap(saved)
    return Claim(text, [float(np.clip(0, over.low, over.high))], LEAST, "nats")


def _full(kind: str) -> str:
    """The label by itself, where those of others do not stand before it."""
    return LABELS[kind].replace("the same", LABELS["added"])


def _rates(novels: Novels) -> Table:
    rates = sorted({one.lr for one in novels.tried})
    nats = {(one.kind, one.lr): one.nats for one in novels.tried}
    rows: list[list[Cell]] = []
    for kind in LEARNT:
        losses = [nats.get((kind, rate), math.inf) for rate in rates]
        if any(map(math.isfinite, losses)):
            shown = [one if math.isfinite(one) else None for one in losses]
            rows.append([_full(kind), *shown, rates[int(np.argmin(losses))]])
    return Table(
        "Learning rates of what learns",
        ["", *(f"{rate:g}" for rate in rates), "taken"],
        rows,
        f"Nats per token on the first half of {novels.books[0]}, of which nothing is reported; "
        "empty where the training diverged.",
    )
