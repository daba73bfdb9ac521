"""The page on a pretrained model and novels: every sentence computed from the result."""

from __future__ import annotations

import numpy as np

from mnemoscope.core.statistics import Estimate, bootstrap
from mnemoscope.plots.figure import Series, bars
from mnemoscope.report.claims import Claim, Gate, claims_table
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.curves import curves_figure
from mnemoscope.studies.findings import lead
from mnemoscope.studies.infinite.labels import LABELS, LEARNT
from mnemoscope.studies.infinite.learning_page import learning_sections
from mnemoscope.studies.infinite.result import CLASSES, NovelLosses, Novels, Past, Reader
from mnemoscope.studies.sentences import Banded

# Of the gain that there is to be had: what counts, and what the ∞-former was asked for.
LEAST, GOAL = 0.05, 0.3
# Nats per token between window alone and whole context, without which there is nothing to share.
HEADROOM = 0.03
PASTS: dict[Past, str] = {"own": "own", "none": "none", "other": "another book's"}
SHARE = "share of the recoverable gain"


def novels_page(novels: Novels) -> list[Section]:
    """Build the sections of the page."""
    found = lead(_found(novels), _shares(novels))
    sections = [found, _memories(novels), _past(novels), _classes(novels)]
    return [*sections, *_limits(novels), *learning_sections(novels)]


def _label(novels: Novels, reader: Reader) -> str:
    told = LABELS[reader.kind]
    if reader.layers:
        told += f" in {reader.layers}"
    if reader.kind != "ceiling" and reader.window != novels.windows[0]:
        told += f" {reader.window}"
    return told


def _gate(novels: Novels, window: int) -> Gate:
    """Whether there is a gain to be had."""
    margin = novels.saved(novels.reading("ceiling"), window).mean - HEADROOM
    name = f"whole context at least {HEADROOM} nats per token better than a window of {window}"
    return Gate(name, [margin])


def _found(novels: Novels) -> list[str]:
    window = novels.windows[0]
    gate = _gate(novels, window)
    if not gate.passed:
        return [f"Nothing can be said of memories: {gate}."]
    room = novels.saved(novels.reading("ceiling"), window).mean
    signal, newest = novels.reading("sticky"), novels.reading("transformer_xl")
    sticky, cache = novels.share(signal, window), novels.share(newest, window)
    met = "which meets" if sticky.low >= GOAL else "which does not surely meet"
    told = [
        f"Seeing {novels.context} tokens instead of {window} would save the model {room:.2f} nats "
        f"per token; with {novels.vectors} vectors a layer, and nothing trained, the sticky "
        f"∞-former saves {_percent(sticky)} of that, {met} the goal of {GOAL:.0%}.",
        f"Transformer-XL's cache of as many vectors saves {_percent(cache)}; "
        + _against(signal, newest, LEAST * room),
    ]
    losses = signal.losses
    if "other" in losses:
        cost = np.mean(losses["other"]) - np.mean(losses["own"])
        told.append(f"With another book's state it would lose {cost:.2f} nats per token.")
    return told


def _against(one: NovelLosses, two: NovelLosses, least: float) -> str:
    """Which of two is better by what counts, if either is in 95 % of redraws of the passages."""
    saved = bootstrap(two.nats() - one.nats())
    size = f"{abs(float(saved.value)):.3f} nats per token"
    if saved.low >= least:
        return f"the ∞-former is {size} better."
    if saved.high <= -least:
        return f"the ∞-former is {size} worse."
    return f"which of the two is better cannot be told ({size} apart)."


def _percent(share: Estimate) -> str:
    return f"{share.mean:.0%} ({share.low:.0%} to {share.high:.0%})"


def _bars(
    novels: Novels, name: str, title: str, readings: list[NovelLosses], caption: str
) -> Figure:
    """Shares of some contestants at the first window, with their intervals."""
    shares = {_label(novels, one.reader): novels.share(one, novels.windows[0]) for one in readings}
    rows: list[dict[str, Cell]] = [
        {"memory": label, **share.cells("share")} for label, share in shares.items()
    ]
    middle = [share.mean for share in shares.values()]
    low, high = [s.low for s in shares.values()], [s.high for s in shares.values()]
    drawn: Banded = Series("", [*shares], middle, low, high), rows
    return curves_figure(name, [drawn], (title, SHARE), caption, bars)


def _shares(novels: Novels) -> Figure:
    kinds = ("carried", "compressive", "even", "transformer_xl", "sticky", *LEARNT)
    readings = [one for kind in kinds if (one := novels.find(kind)) is not None]
    return _bars(
        novels, "Share of the recoverable gain by memory", "memory", readings,
        f"Windows of {novels.windows[0]} tokens, {novels.vectors} vectors a layer; 0 is the window "
        f"alone, 1 the whole context of {novels.context}. Bars: 95 % over passages.",
    )  # fmt: skip


def _memories(novels: Novels) -> Section:
    rows: list[list[Cell]] = []
    claims = []
    for window in novels.windows:
        for reading in novels.readings:
            reader = reading.reader
            if not reader.plain or (reader.window != window and reader.kind != "ceiling"):
                continue
            per_word = reading.nats().mean() * _tokens(novels) / np.mean(reading.words)
            share, gain = novels.share(reading, window), novels.saved(reading, window)
            rows.append(
                [_label(novels, reader), window, float(reading.nats().mean()), float(per_word),
                 float(np.exp(per_word)), gain.mean, _percent(share), reading.bytes]
            )  # fmt: skip
        for kind in ("sticky", "transformer_xl"):
            low = novels.share(novels.reading(kind, window), window).low
            text = f"{LABELS[kind]}, window {window}: {GOAL:.0%} of the gain or more"
            claims.append(Claim(text, [low], GOAL, "of the gain", [_gate(novels, window)]))
    columns = [
        "reads with", "window", "nats per token", "nats per word", "perplexity per word",
        "saved, nats per token", "share of the gain", "bytes",
    ]  # fmt: skip
    count = len(novels.reading("ceiling").words)
    return Section(
        "1 · Window alone, memories, whole context",
        [
            f"{count} passages of {novels.context} tokens from {' and '.join(novels.books)}, in "
            f"whose second half every token is predicted; the model computes in {novels.dtype}. "
            "Window alone: windows overlap by half, so every token sees at least half a window. "
            "Memories read half a window at a time; the "
            "window before it is among their vectors, whole. The first half of the first novel "
            "chose how fast attention is forgotten; nothing of it is reported.",
            claims_table("Is the goal met?", claims),
            Table("Memories on novels", columns, rows, "Means over passages; 95 % over passages."),
        ],
    )


def _tokens(novels: Novels) -> int:
    return novels.context // 2


def _past(novels: Novels) -> Section:
    rows: list[list[Cell]] = []
    for reading in novels.readings:
        if "other" not in reading.losses:
            continue
        for past, label in PASTS.items():
            more = bootstrap(reading.nats(past) - reading.nats())
            rows.append([_label(novels, reading.reader), label, float(reading.nats(past).mean()),
                         float(more.value), float(more.low), float(more.high)])  # fmt: skip
    return Section(
        "2 · Whose state?",
        [
            "The last window and the sinks stay; what is older is the passage's own, nothing, or "
            "that of a passage of another book, exchanged at every window.",
            Table(
                "Own, no and another's state",
                ["reads with", "state", "nats per token", "more than own", "from", "to"],
                rows,
                f"Windows of {novels.windows[0]}; 95 % over passages.",
            ),
        ],
    )


def _classes(novels: Novels) -> Section:
    window = novels.windows[0]
    rows: list[list[Cell]] = []
    for part, label in CLASSES.items():
        count = sum(novels.reading("ceiling").tokens[part])
        if not count:
            continue
        floor, sticky, ceiling = (
            sum(novels.reading(kind).sums[part]) / count for kind in ("floor", "sticky", "ceiling")
        )
        share = novels.share(novels.reading("sticky"), window, part)
        rows.append([label, count, floor, sticky, ceiling, _percent(share)])
    return Section(
        "3 · Which tokens?",
        [
            "Rare are words that make up less than one in 50 000 of the novels that are not read; "
            "most names are. They return if they came before in the passage but not in the window.",
            Table(
                "By kind of token",
                ["tokens", "how many", "window alone", "∞-former, sticky", "whole context",
                 "share of the gain"],
                rows,
                "Nats per token.",
            ),
        ],
    )  # fmt: skip


def _limits(novels: Novels) -> list[Section]:
    """Of what limits a memory: how many vectors, and in which layers."""
    figures = []
    window = novels.windows[0]
    at_first = [one for one in novels.readings if one.reader.window == window]
    sizes = {
        kind: {
            one.reader.vectors or novels.vectors: one
            for one in at_first
            if one.reader.kind == kind and not one.reader.layers
        }
        for kind in ("sticky", "transformer_xl")
    }
    if all(len(found) > 1 for found in sizes.values()):
        curves: list[Banded] = []
        for kind, by_size in sizes.items():
            shares = {size: novels.share(by_size[size], window) for size in sorted(by_size)}
            low, high = [s.low for s in shares.values()], [s.high for s in shares.values()]
            middle = [s.mean for s in shares.values()]
            rows: list[dict[str, Cell]] = [
                {"memory": LABELS[kind], "vectors": size, **share.cells("share")}
                for size, share in shares.items()
            ]
            curves.append((Series(LABELS[kind], [*shares], middle, low, high), rows))
        figures.append(
            curves_figure(
                "Share against vectors", curves, ("vectors a layer", SHARE),
                "Bands: 95 % over passages.", log_x=True,
            )
        )  # fmt: skip
    parts = [one for one in at_first if one.reader.layers]
    if parts:
        figures.append(
            _bars(
                novels, "Share by where the memory is", "layers that read all vectors",
                [*parts, novels.reading("sticky")],
                "Other layers see the window before and the sinks only.",
            )
        )  # fmt: skip
    told = "How much is kept, and which layers read it."
    return [Section("4 · What limits it", [told, *figures])] if figures else []
