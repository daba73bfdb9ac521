"""The page of the study `lag`: every figure and every sentence is computed from its result."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mnemoscope.plots.figure import Reference, Region, Series, bars, heatmap, lines
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.lag.result import LETTERS, WORD, GatesSeen, LagResult
from mnemoscope.studies.sentences import SIGNS, all_banded, band, edge_of_sweep, ranked, spread
from mnemoscope.studies.study import label

ACROSS = "wait (tokens between showing and asking)"


def page(result: LagResult) -> list[Section]:
    """Build the sections of the page."""
    return [_recall(result), _sweep(result), _sizes(result), _gates(result), _spelling(result)]


def ranking(result: LagResult, wait: int) -> str:
    """Order the memories at one wait."""
    place = result.waits.index(wait)
    return ranked({label(m): result.accuracy(m)[:, place] for m in result.models})


def _lived(result: LagResult, memory: str) -> str:
    lives, longest = result.half_lives(memory), result.waits[-1]
    low, high = min(lives), max(lives)
    if low == longest:
        return f"{label(memory)} still recalls after {longest} tokens, the longest wait tested"
    if high == 0:
        return f"{label(memory)} is below half-way to chance after the shortest wait already"
    span = f"{low} tokens" if low == high else f"{low} to {high} tokens, by seed"
    return f"{label(memory)} stays above half-way to chance for {span}"


def _recall(result: LagResult) -> Section:
    waits, trained = result.waits, result.trained
    chance, most = 1 / result.symbols, result.items * math.log2(result.symbols)
    inside = max(wait for wait in waits if wait <= trained)
    seen = [
        f"Order after a wait of {inside}, the longest tested within what was trained: "
        f"{ranking(result, inside)}.",
        f"Order after {waits[-1]} tokens: {ranking(result, waits[-1])}.",
        f"{SIGNS} " + "; ".join(_lived(result, memory) for memory in result.models) + ".",
    ]
    beyond = _beyond(result, inside)
    if beyond:
        seen.append(beyond)
    count = len(result.accuracy(next(iter(result.models))))
    seeds = f"Line: mean of {count} seeds; band: lowest to highest seed."

    def curves(
        name: str, what: str, title: str, level: Reference, top: float, caption: str
    ) -> Figure:
        of = result.accuracy if what == "accuracy" else result.bits
        values = {label(memory): of(memory) for memory in result.models}
        series, rows = all_banded(waits, values, ("wait", what))
        region = Region(waits[0], trained, "waits seen in training")
        axes: dict[str, Any] = {"region": region, "log_x": True, "y_range": (0, top)}
        drawn = lines(series, ACROSS, title, references=[level], **axes)
        return Figure(f"{name} against wait", drawn, caption, rows)

    return Section(
        "What was seen",
        [
            *seen,
            curves(
                "Recall",
                "accuracy",
                "accuracy",
                Reference(chance, "chance"),
                1.03,
                f"Share of symbols repeated correctly. {seeds}",
            ),
            curves(
                "Bits",
                "bits",
                "bits recalled per episode",
                Reference(most, "all that was shown"),
                most * 1.05,
                "The same in bits: what the answers cost less than guessing, "
                f"max(0, log₂ {result.symbols} − cross-entropy) for each of "
                f"{result.items} symbols. {seeds}",
            ),
        ],
    )


def _beyond(result: LagResult, inside: int) -> str:
    """What became of those that had learnt the task once the wait left the trained range."""
    here, end = result.waits.index(inside), len(result.waits) - 1
    kept: list[str] = []
    lost: list[str] = []
    for memory in result.models:
        accuracy = result.accuracy(memory)
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


def _sweep(result: LagResult) -> Section:
    series, rows = [], []
    for memory in result.models:
        tries = result.tries(memory)
        rates = sorted({one.lr for one in tries})
        bits = {
            lr: [one.asked.choosing_bits if one.asked else 0.0 for one in tries if one.lr == lr]
            for lr in rates
        }
        values = np.array(list(bits.values()))
        series.append(band(label(memory), rates, values.T))
        rows += [
            {
                "model": label(memory),
                "lr": one.lr,
                "seed": one.seed,
                "bits": one.asked.choosing_bits if one.asked else None,
                "diverged": one.diverged,
            }
            for one in tries
        ]
    diverged = sum(one.asked is None for one in result.trainings)
    chosen = {label(memory): facts.lr for memory, facts in result.models.items()}
    ends = edge_of_sweep(chosen, sorted({one.lr for one in result.trainings}))
    best = ", ".join(f"{name} {lr:g}" for name, lr in chosen.items())
    means = [float(np.max(s.y) - np.min(s.y)) for s in series]
    widest = series[int(np.argmax(means))].name
    return Section(
        "The learning rate decides",
        [
            f"Each memory was trained with every learning rate and is shown above at its own best "
            f"one: {best}. The choice moves {widest} by {max(means):.1f} bits. "
            f"Trainings that diverged: {diverged} of {len(result.trainings)}. {ends}",
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


def _sizes(result: LagResult) -> Section:
    waits, trained = result.waits, result.trained
    inside = waits.index(max(wait for wait in waits if wait <= trained))
    near, far = waits[inside], waits[-1]
    carried: list[list[Cell]] = []
    kept: list[list[Cell]] = []
    for memory, facts in result.models.items():
        accuracy = result.accuracy(memory).mean(0)
        lives = result.half_lives(memory)
        tries = result.tries(memory, facts.lr)
        seconds = [one.asked.seconds for one in tries if one.asked]
        name, state = label(memory), facts.state_bytes
        shape = f"{facts.layers} × {facts.width}"
        carried.append([name, facts.parameters, shape, state[inside], state[-1]])
        life = spread(lives)
        time = float(np.mean(seconds)) if seconds else None
        kept.append([name, f"{facts.lr:g}", accuracy[inside], accuracy[-1], life, time])
    sizes = [facts.parameters for facts in result.models.values()]
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


def _gates(result: LagResult) -> Section:
    parts: list[str | Figure] = [
        "One episode seen from inside, at the first layer of the first seed. A forget gate (LSTM) "
        "or an update gate (GRU) near 1 keeps what the unit holds, near 0 replaces it.",
    ]
    for memory, seen in result.gates.items():
        parts += _gates_of(label(memory), seen, result.items)
    return Section("Gates over time", parts)


def _gates_of(name: str, seen: GatesSeen, items: int) -> list[str | Figure]:
    gate = seen.keeping
    keeping = np.array(seen.means[seen.names.index(gate)])
    steps = range(len(keeping))
    series: list[Series] = []
    rows: list[dict[str, Cell]] = []
    for one, mean, low, high in zip(seen.names, seen.means, seen.lows, seen.highs, strict=True):
        series.append(Series(one, steps, mean, low, high))
        bounds = zip(steps, mean, low, high, strict=True)
        rows += [{"token": t, "gate": one, "mean": m, "low": a, "high": b} for t, m, a, b in bounds]
    units = np.array(seen.example).T
    # Units that behave alike stand together.
    order = np.argsort(units.mean(1))
    return [
        f"{name}: the {gate} gate is at {keeping[:items].mean():.2f} on average while symbols are "
        f"shown, {keeping[items:-items].mean():.2f} during the wait and "
        f"{keeping[-items:].mean():.2f} while answering.",
        Figure(
            f"{name} gates",
            lines(series, "token", "gate", y_range=(-1.05, 1.05)),
            f"All gates of the {name} over one length of episode (0 to {items - 1} show symbols, "
            f"the last {items} ask). Line: mean over units and 32 episodes; band: all but the "
            "lowest and highest tenth of them.",
            rows,
        ),
        Figure(
            f"{name} {gate} gate by unit",
            heatmap(
                units[order],
                seen.read,
                [f"unit {unit}" for unit in order],
                "token read",
                "unit",
                gate,
                z_range=(0, 1),
            ),
            f"The {gate} gate of every unit in one episode: letters are symbols, dots are noise, "
            "question marks ask.",
            [
                {"token": t, "unit": unit, gate: value}
                for t, values in enumerate(seen.example)
                for unit, value in enumerate(values)
            ],
        ),
    ]


def _spelling(result: LagResult) -> Section:
    """What each memory expects after the first letters of a word."""
    series: list[Series] = []
    rows: list[dict[str, Cell]] = []
    said: list[str] = []
    for memory, chances in result.spelling.items():
        last = np.array(chances)[:, -1]  # (seeds, letters), having read all but the last letter
        series.append(band(label(memory), LETTERS, last))
        right = last[:, LETTERS.index(WORD[-1])]
        said.append(f"{label(memory)} {right.mean():.2f}")
        rows += [
            {
                "model": label(memory),
                "seed": seed,
                "read": WORD[: t + 1],
                "next": letter,
                "probability": chance,
            }
            for seed, table in enumerate(chances)
            for t, row in enumerate(table)
            for letter, chance in zip(LETTERS, row, strict=True)
        ]
    opening = (
        f"Tiny models of each kind learnt the word “{WORD}” letter by letter, in few steps. After "
        "“hel” comes l, after “hell” comes o: the letter just read is the same, only memory tells "
        f"them apart. Probability of o after “hell”: {', '.join(said)}."
    )
    return Section(
        "The next letter of a word",
        [
            opening,
            Figure(
                "Next letter after hell",
                bars(series, "next letter", "probability", y_range=(0, 1.03)),
                "What each model expects after “hell”. Whiskers: lowest to highest seed.",
                rows,
            ),
        ],
    )
