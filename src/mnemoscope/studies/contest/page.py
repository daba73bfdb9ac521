"""What the pages of `images` and `patterns` share: curves, order, what each costs and carries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mnemoscope.memories.sparse.patterns import Pattern, hops
from mnemoscope.plots.figure import Reference, Series, lines
from mnemoscope.plots.images import tiles
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.contest.result import ContestResult
from mnemoscope.studies.sentences import FEWER, band, edge_of_sweep, ranked


def sections(
    result: ContestResult,
    unit: str,
    seen: Sequence[str | Figure],
    attended: Sequence[str | Figure],
    hops: Section,
    known: str = "",
) -> list[Section]:
    """The page of a contest, of what was ``seen``, where models ``attended``, and two ``hops``.

    ``known`` is a sentence on what models could do that only count.
    """
    words = [f"Held-out bits per {unit}, best first: {order(result)}. {FEWER}"]
    if len(result.models) > 1:
        words.append(f"{'; '.join(differences(result, next(iter(result.models))))}.")
    return [
        Section("What was seen", [*words, known + rates(result), *seen]),
        Section("Where the layers attend", attended),
        hops,
        costs(result, unit),
    ]


def order(result: ContestResult) -> str:
    """The models from the fewest bits to the most."""
    bits = {name: result.final_bits(name) for name in result.models}
    return ranked(bits, digits=3, lowest_first=True)


def differences(result: ContestResult, first: str) -> list[str]:
    """How much each other model differs from the first, seed by seed (the seeds are paired)."""
    base = result.final_bits(first)
    told = []
    for name in result.models:
        if name == first:
            continue
        apart = result.final_bits(name) - base
        side = "below" if apart.max() < 0 else "above" if apart.min() > 0 else "around"
        told.append(
            f"{name} ends {side} {first} by seed: {', '.join(f'{value:+.3f}' for value in apart)}"
        )
    return told


def curves(result: ContestResult, unit: str, references: list[Reference], tail: str) -> Figure:
    """Held-out bits against compute, with the seeds as bands."""
    series: list[Series] = []
    rows: list[dict[str, Cell]] = []
    for name, facts in result.models.items():
        known = [(one.seed, one.curve) for one in result.of(name) if one.curve]
        for seed, curve in known:
            rows += [
                {"model": name, "seed": seed, "step": step, "teraflop": flop, "bits": bits}
                for step, bits in zip(curve.steps, curve.bits, strict=True)
                for flop in [step * facts.flop / 1e12]
            ]
        if known:
            bits = np.array([curve.bits for _, curve in known])
            spent = np.array(known[0][1].steps) * facts.flop / 1e12
            series.append(band(name, spent, bits))
    return Figure(
        f"Bits per {unit} against compute",
        lines(series, "compute (10¹² flop)", f"held-out bits per {unit}", references=references),
        f"Line: mean of {result.seeds} seeds; band: lowest to highest seed. All models end at "
        f"the same compute. {tail}",
        rows,
    )


def costs(result: ContestResult, unit: str) -> Section:
    """What each pattern looks at, costs and carries."""
    rows: list[list[Cell]] = []
    for name, facts in result.models.items():
        bits = result.final_bits(name)
        seconds = [one.curve.seconds for one in result.of(name) if one.curve]
        time = float(np.mean(seconds)) if seconds else None
        share = facts.flop / next(iter(result.models.values())).flop
        cells: list[Cell] = [name, facts.pairs, share, facts.steps, f"{facts.lr:g}"]
        rows.append([*cells, float(bits.mean()), time])
    diverged = sum(one.curve is None for one in result.trainings)
    state: list[list[Cell]] = [[name, *facts.state_bytes] for name, facts in result.models.items()]
    lengths = [f"after {length}" for length in result.state_lengths]
    columns = ["model", "tokens looked at", "flop of a step", "steps", "lr"]
    return Section(
        "What each costs and carries",
        [
            "A token looks at fewer others where the pattern is sparse, so a step costs less and "
            "the same compute pays for more steps. At this length most of the compute is in the "
            "matrix products that all models share: the longer the sequence, the more there is to "
            f"save. Trainings that diverged: {diverged} of {len(result.trainings)}.",
            Table(
                "Cost of a step",
                [*columns, f"bits per {unit}", "training s"],
                rows,
                "Tokens looked at: mean over layers, heads and places. Flop of a step: relative to "
                "the first model. Training time of one model on one thread.",
            ),
            "While it draws or writes, a model carries what its patterns can still look at. "
            + _least_and_most(result),
            Table(
                "Bytes of state",
                ["model", *lengths],
                state,
                "Measured, one stream, all layers: keys, values and places in float32 and int64.",
            ),
        ],
    )


def _least_and_most(result: ContestResult) -> str:
    last = {name: facts.state_bytes[-1] for name, facts in result.models.items()}
    least, most = min(last, key=last.__getitem__), max(last, key=last.__getitem__)
    length = result.state_lengths[-1]
    return (
        f"After {length} tokens, {least} carries {last[least]} bytes and {most} {last[most]}, "
        f"{last[most] / last[least]:.1f} times as many."
    )


def hops_section(stride: int, summaries: int, rows: int) -> Section:
    """Two sparse masks and their product, drawn: the proof that two looks reach everything."""
    length = stride * rows
    pictures, told = [], []
    table: list[dict[str, str | int]] = []
    pairs = {"strided": ("local", "column"), "fixed": ("block", "summary")}
    for name, sets in pairs.items():
        first, second = (Pattern.parse(one, stride, summaries) for one in sets)
        ways = hops([first, second], length)
        reached = (ways > 0)[np.tri(length, dtype=np.bool_)].mean()
        told.append(
            f"{name}: {first.pairs(length)} and {second.pairs(length)} pairs in two layers reach "
            f"{100 * reached:.0f} % of the {length * (length + 1) // 2} pairs of dense attention"
        )
        masks = [first.mask(length), second.mask(length), ways > 0]
        pictures.append([mask.astype(float) for mask in masks])
        table += [
            {"pattern": name, "set": one, "looking": i, "looked at": j}
            for one, mask in zip((*sets, "both, one after the other"), masks, strict=True)
            for i, j in np.argwhere(mask).tolist()
        ]
    columns = ["first layer", "second layer", "both: mask₂ · mask₁ > 0"]
    return Section(
        "Two hops reach everything",
        [
            "Why sparse attention loses nothing in principle: what a token looked at in one layer, "
            "it knows in the next. If the first layer's mask leads from j to k and the second's "
            "from k to i, then j reaches i, and the product of the two masks counts the ways. "
            + "; ".join(told)
            + ".",
            Figure(
                "Two masks and their product",
                tiles(pictures, list(pairs), columns, "looked at"),
                f"Rows look at columns, {length} tokens, stride {stride}, {summaries} summaries. "
                f"Above {' then '.join(pairs['strided'])}, below {' then '.join(pairs['fixed'])}.",
                table,
            ),
        ],
    )


def rates(result: ContestResult) -> str:
    """Say which learning rate each model took, and whether a better one may lie outside."""
    tried = sorted({one.lr for one in result.sweep})
    chosen = {name: facts.lr for name, facts in result.models.items()}
    said = ", ".join(f"{name} {rate:g}" for name, rate in chosen.items())
    return (
        "The first seed of each model tried the learning rates "
        f"{', '.join(f'{rate:g}' for rate in tried)}, and the best one on the held-out data was "
        f"kept for all its seeds: {said}. {edge_of_sweep(chosen, tried)}"
    )


def distances(result: ContestResult, unit: str) -> list[str | Figure]:
    """How far each layer attends back, beside even attention to all that its pattern allows."""
    series: list[Series] = []
    rows: list[dict[str, Cell]] = []
    far = []
    for name, one in result.attended.items():
        layers = range(1, len(one.patterns) + 1)
        series.append(Series(name, layers, one.distance, one.low, one.high))
        columns = zip(layers, one.patterns, one.distance, one.low, one.high, one.even, strict=True)
        rows += [{"model": name, **dict(zip(_COLUMNS, values, strict=True))} for values in columns]
        share = np.array(one.distance) / np.array(one.even)
        far.append(f"{name} {share.min():.2f} to {share.max():.2f}")
    return [
        "Mean distance attended back over, as a share of what even attention to all that the "
        "pattern allows would give (1 = no preference), lowest to highest layer: "
        f"{'; '.join(far)}.",
        Figure(
            "Distance looked back over",
            lines(series, "layer", f"{unit} back, mean").update_xaxes(dtick=1),
            "Line: mean over rows, heads and positions of the first seed; band: all rows but the "
            "lowest and highest tenth. The data hold even attention beside each.",
            rows,
        ),
    ]


_COLUMNS = ("layer", "pattern", "distance", "low", "high", "even")
