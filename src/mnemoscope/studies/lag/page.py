"""The page of the study `lag`: every figure and every sentence is computed from its result."""

from __future__ import annotations

import math

import numpy as np

from mnemoscope.lenses.lens import Records, records
from mnemoscope.plots.figure import Reference, Region, Series, bars, heatmap, lines
from mnemoscope.report.document import Cell, Figure, Section, Table, finding
from mnemoscope.studies.lag.finding import LEAST, findings, learnt
from mnemoscope.studies.lag.result import LETTERS, WORD, GatesSeen, LagResult
from mnemoscope.studies.sentences import (
    all_banded,
    band,
    best_rates,
    gated,
    mean_or_none,
    over_seeds,
    ranked,
    signs,
    spread,
)
from mnemoscope.studies.study import label


def page(result: LagResult) -> list[Section]:
    """Build the sections of the page."""
    chance, most = 1 / result.symbols, result.items * math.log2(result.symbols)
    recall = _against_wait(
        result,
        "Recall",
        "accuracy",
        "accuracy",
        Reference(chance, "chance"),
        1.03,
        "Share of symbols repeated correctly.",
    )
    bits = _against_wait(
        result,
        "Bits",
        "bits",
        "bits recalled per episode",
        Reference(most, "all that was shown"),
        most * 1.05,
        "The same in bits: what the answers cost less than guessing, "
        f"max(0, log₂ {result.symbols} − cross-entropy) for each of {result.items} symbols.",
    )
    return [
        finding(*findings(result), figure=recall),
        Section("The same in bits", [bits]),
        _sizes(result),
        _gates(result),
        _spelling(result),
        _order(result),
        _sweep(result),
    ]


def _against_wait(
    result: LagResult, name: str, what: str, title: str, level: Reference, top: float, caption: str
) -> Figure:
    waits = result.waits
    of = result.accuracy if what == "accuracy" else result.bits
    values = {label(memory): of(memory) for memory in result.models}
    series, rows = all_banded(waits, values, ("wait", what))
    drawn = lines(
        series,
        "wait (tokens between showing and asking)",
        title,
        references=[level],
        region=Region(waits[0], result.trained, "waits seen in training"),
        log_x=True,
        y_range=(0, top),
    )
    seeds = over_seeds(len(next(iter(values.values()))))
    return Figure(f"{name} against wait", drawn, f"{caption} {seeds}", rows)


def ranking(result: LagResult, wait: int, among: list[str]) -> str:
    """Order memories at one wait."""
    place = result.waits.index(wait)
    scores = {label(m): result.accuracy(m)[:, place] for m in result.models}
    return ranked({name: scores[name] for name in among}, least=LEAST)


def _order(result: LagResult) -> Section:
    inside = result.longest_trained
    passed, gates = gated(learnt(result))
    return Section(
        "Who before whom",
        [
            gates,
            f"Order after a wait of {inside}, the longest tested within what was trained: "
            f"{ranking(result, inside, passed)}.",
            f"Order after {result.waits[-1]} tokens: {ranking(result, result.waits[-1], passed)}.",
            signs(LEAST, "of the answers"),
        ],
    )


def _sweep(result: LagResult) -> Section:
    series = []
    rows: list[dict[str, Cell]] = []
    for memory in result.models:
        tries = result.tries(memory)
        bits: dict[float, list[float]] = {}
        for one in sorted(tries, key=lambda one: one.lr):
            bits.setdefault(one.lr, []).append(one.asked.choosing_bits if one.asked else 0.0)
        series.append(band(label(memory), list(bits), np.array(list(bits.values())).T))
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
    means = [float(np.max(s.y) - np.min(s.y)) for s in series]
    widest = series[int(np.argmax(means))].name
    return Section(
        "The learning rate decides",
        [
            f"Each memory was trained with every learning rate and is shown above at its own best "
            f"one: {best_rates(chosen, (one.lr for one in result.trainings))} The choice moves "
            f"{widest} by {max(means):.1f} bits. Trainings that diverged: {diverged} of "
            f"{len(result.trainings)}.",
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
    near, far = result.longest_trained, result.waits[-1]
    inside = result.waits.index(near)
    carried: list[list[Cell]] = []
    kept: list[list[Cell]] = []
    for memory, facts in result.models.items():
        accuracy = result.accuracy(memory).mean(0)
        tries = result.tries(memory, facts.lr)
        time = mean_or_none([one.asked.seconds for one in tries if one.asked])
        name, state = label(memory), facts.state_bytes
        shape = f"{facts.layers} × {facts.width}"
        carried.append([name, facts.parameters, shape, state[inside], state[-1]])
        life = spread(result.half_lives(memory))
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
    columns = {"mean": seen.means, "low": seen.lows, "high": seen.highs}
    series = [
        Series(one, steps, *curves)
        for one, *curves in zip(seen.names, *columns.values(), strict=True)
    ]
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
            records({"gate": seen.names, "token": steps}, columns),
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
            records({"token": steps, "unit": range(len(units))}, {gate: seen.example}),
        ),
    ]


def _spelling(result: LagResult) -> Section:
    """What each memory expects after the first letters of a word."""
    series: list[Series] = []
    rows: Records = []
    said: list[str] = []
    for memory, chances in result.spelling.items():
        found = np.array(chances)  # (seeds, letters read, next letters)
        last = found[:, -1]  # having read all but the last letter
        series.append(band(label(memory), LETTERS, last))
        right = last[:, LETTERS.index(WORD[-1])]
        said.append(f"{label(memory)} {right.mean():.2f}")
        read = [WORD[: t + 1] for t in range(found.shape[1])]
        axes = {"model": [label(memory)], "seed": range(len(found)), "read": read, "next": LETTERS}
        rows += records(axes, {"probability": found})
    return Section(
        "The next letter of a word",
        [
            f"Tiny models of each kind learnt the word “{WORD}” letter by letter, in few steps. "
            "After “hel” comes l, after “hell” comes o: the letter just read is the same, only "
            f"memory tells them apart. Probability of o after “hell”: {', '.join(said)}.",
            Figure(
                "Next letter after hell",
                bars(series, "next letter", "probability", y_range=(0, 1.03)),
                "What each model expects after “hell”. Whiskers: lowest to highest seed.",
                rows,
            ),
        ],
    )
