"""The part of the page of `sorting` that shows where attention goes."""

from __future__ import annotations

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.lenses.lens import records
from mnemoscope.plots.figure import Reference, heatmap, lines
from mnemoscope.report.document import Figure, Section
from mnemoscope.studies.sentences import all_banded
from mnemoscope.studies.sorting.result import (
    MU_EDGES,
    PARTS,
    ROWS,
    SIGMA_EDGES,
    Attention,
    SortingResult,
)


def attention_sections(result: SortingResult) -> list[Section]:
    """Attention by age, its densities over a signal, and what sticks: at the first length."""
    trained = result.trained[0]
    seen: dict[str, list[Attention]] = {}
    without = []
    for model, facts in result.models.items():
        examined = result.examined(model, trained)
        measured = [one.attention for one in examined if one.attention is not None]
        if measured:
            seen[facts.label] = measured
        elif examined:
            without.append(facts.label)
    if not seen:
        return []
    sections = [_by_age(seen, without, result.segment)]
    afar = {
        facts.label: [one.afar for one in result.examined(model, trained) if one.afar is not None]
        for model, facts in result.models.items()
    }
    afar = {name: seeds for name, seeds in afar.items() if seeds}
    if afar and result.tested[-1] > trained:
        sections.append(_afar(afar, result, trained))
    signals = {name: seeds for name, seeds in seen.items() if all(one.mu for one in seeds)}
    if signals:
        sections.append(_densities(signals))
    sticky = next((seeds[0] for seeds in seen.values() if seeds[0].written), None)
    if sticky is not None:
        sections.append(_over_time(np.array(sticky.written)))
    return sections


def _by_age(seen: dict[str, list[Attention]], without: list[str], segment: int) -> Section:
    shares = {name: np.array([one.by_age for one in seeds]) for name, seeds in seen.items()}
    count = next(iter(shares.values())).shape[1]
    series, rows = all_banded(segment * (np.arange(count) + 0.5), shares, ("age", "share"))
    oldest = {name: one[:, count // 2 :].sum(1).mean() for name, one in shares.items()}
    said = ", ".join(f"{name} {share:.0%}" for name, share in oldest.items())
    words = (
        "To count fairly, every part of the stream should get the same attention. Share of "
        f"attention, while answering, that goes to the older half of the stream: {said}."
    )
    if without:
        words += f" Not measured, since nothing there attends by distance: {', '.join(without)}."
    return Section(
        "Where attention goes",
        [
            words,
            Figure(
                "Attention by age",
                lines(
                    series,
                    "age (tokens before the question)",
                    "share of attention",
                    references=[Reference(1 / count, "uniform")],
                ),
                "Share of the attention to what was read that goes to each segment of the stream, "
                "while answering, mean over layers, heads and streams. For a queue of tokens: its "
                "attention weights; for a signal: the mass of the densities, at the positions "
                "where tokens were written. Band: lowest to highest seed.",
                rows,
            ),
        ],
    )


def _afar(seen: dict[str, list[Attention]], result: SortingResult, trained: int) -> Section:
    """Whether what was learnt at one length still looks at all of a longer stream."""
    longest = result.tested[-1]
    shares = {name: np.array([one.by_age for one in seeds]) for name, seeds in seen.items()}
    count = next(iter(shares.values())).shape[1]
    series, rows = all_banded(result.segment * (np.arange(count) + 0.5), shares, ("age", "share"))
    # What is older than any token was in training.
    new = -(-trained // result.segment)
    beyond = {name: one[:, new:].sum(1).mean() for name, one in shares.items()}
    told = ", ".join(f"{name} {share:.0%}" for name, share in beyond.items())
    return Section(
        "Where attention goes in longer streams",
        [
            f"The same at {longest} tokens, of which the oldest {1 - trained / longest:.0%} are "
            "older than anything was in training. Uniform attention would give them that share; "
            f"they get: {told}. In a signal with a fixed τ a position stands for an age, so what "
            "was learnt of ages in training says nothing of older ones; with equal shares it "
            "stands for a share of the stream, short or long.",
            Figure(
                "Attention by age in a longer stream",
                lines(
                    series,
                    "age (tokens before the question)",
                    "share of attention",
                    references=[Reference(1 / count, "uniform")],
                    log_x=True,
                ),
                f"As above, after {longest} tokens; trained at {trained}.",
                rows,
            ),
        ],
    )


def _densities(signals: dict[str, list[Attention]]) -> Section:
    mu = {name: np.array([one.mu for one in seeds]) for name, seeds in signals.items()}
    sigma = {name: np.array([one.sigma for one in seeds]) for name, seeds in signals.items()}
    return Section(
        "How wide attention is",
        [
            "Every query attends to a signal through a density with mean μ and width σ. A width "
            "near 1 covers the whole signal: its mean, which is what counting needs.",
            _histogram("Means", "μ", "mean of a density (0 = oldest, 1 = newest)", mu, MU_EDGES),
            _histogram("Widths", "σ", "width of a density", sigma, SIGMA_EDGES),
        ],
    )


def _histogram(
    name: str, sign: str, x_title: str, shares: dict[str, Floats], edges: Floats
) -> Figure:
    middle = (edges[1:] + edges[:-1]) / 2
    series, rows = all_banded(middle, shares, (sign, "share"))
    return Figure(
        f"{name} of densities",
        lines(series, x_title, "share of queries"),
        f"Histogram of {sign} over all layers, heads and answers of {ROWS} streams. Band: "
        "lowest to highest seed.",
        rows,
    )


def _over_time(written: Floats) -> Section:
    newest_first, writes = written.T[::-1], range(len(written))  # (PARTS, writes)
    positions = [f"{(part + 0.5) / PARTS:.2f}" for part in reversed(range(PARTS))]
    axes = {"position": [float(at) for at in positions], "write": writes}
    return Section(
        "What sticks",
        [
            "Sticky memories give room to what was attended to. The picture shows, for one stream "
            "and the first layer, how much attention every part of the signal had received when "
            f"the next segment was written. Uniform attention would be {1 / PARTS:.3f} everywhere; "
            f"the most that one part got is {newest_first.max():.3f}.",
            Figure(
                "Sticky attention over time",
                heatmap(newest_first, writes, positions, "write", "position in signal", "share"),
                "Columns: writes, one per segment. Rows: parts of the signal, the newest at the "
                "top. Colour: share of the attention since the last write.",
                records(axes, {"share": newest_first}),
            ),
        ],
    )
