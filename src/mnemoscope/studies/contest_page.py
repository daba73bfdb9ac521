"""What the pages of `images` and `patterns` share: curves, order, what each costs and carries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mnemoscope.lenses.attention_maps import AttentionMaps, LooksResult
from mnemoscope.memories.sparse.patterns import Pattern, hops
from mnemoscope.plots.figure import Reference, Series, lines
from mnemoscope.plots.images import tiles
from mnemoscope.report.document import Figure, Section, Table
from mnemoscope.studies.contest import last_bits
from mnemoscope.studies.sentences import ranked
from mnemoscope.training.run import Run

Floats = NDArray[np.float64]
# Rows over which looks are averaged.
WATCHED = 32


def final_bits(result: dict[str, Any], name: str) -> Floats:
    """Held-out bits of a model at the end of training, one for each seed; ∞ where it diverged."""
    rows = [row for row in result["trials"] if row["model"] == name]
    return np.array([last_bits(row) for row in rows])


def order(result: dict[str, Any]) -> str:
    """The models from the fewest bits to the most."""
    bits = {name: final_bits(result, name) for name in result["models"]}
    return ranked(bits, digits=3, lowest_first=True)


def differences(result: dict[str, Any], first: str) -> list[str]:
    """How much each other model differs from the first, seed by seed (the seeds are paired)."""
    base = final_bits(result, first)
    told = []
    for name in result["models"]:
        if name == first:
            continue
        apart = final_bits(result, name) - base
        side = "below" if apart.max() < 0 else "above" if apart.min() > 0 else "around"
        told.append(
            f"{name} ends {side} {first} by seed: {', '.join(f'{value:+.3f}' for value in apart)}"
        )
    return told


def curves(result: dict[str, Any], unit: str, references: list[Reference], tail: str) -> Figure:
    """Held-out bits against compute, with the seeds as bands."""
    series, rows = [], []
    for name, facts in result["models"].items():
        known = [row for row in result["trials"] if row["model"] == name and "bits" in row]
        for row in known:
            rows += [
                {"model": name, "seed": row["seed"], "step": step, "teraflop": flop, "bits": bits}
                for step, bits in zip(row["steps"], row["bits"], strict=True)
                for flop in [step * facts["flop"] / 1e12]
            ]
        if known:
            bits = np.array([row["bits"] for row in known])
            spent = np.array(known[0]["steps"]) * facts["flop"] / 1e12
            series.append(Series(name, spent, bits.mean(0), bits.min(0), bits.max(0)))
    return Figure(
        f"Bits per {unit} against compute",
        lines(series, "compute (10¹² flop)", f"held-out bits per {unit}", references=references),
        f"Line: mean of {result['seeds']} seeds; band: lowest to highest seed. All models end at "
        f"the same compute. {tail}",
        rows,
    )


def costs(result: dict[str, Any], unit: str) -> Section:
    """What each pattern looks at, costs and carries."""
    rows = []
    for name, facts in result["models"].items():
        bits = final_bits(result, name)
        seconds = [r["seconds"] for r in result["trials"] if r["model"] == name and "seconds" in r]
        time = float(np.mean(seconds)) if seconds else None
        share = facts["flop"] / next(iter(result["models"].values()))["flop"]
        cells = [name, facts["pairs"], share, facts["steps"], f"{facts['lr']:g}"]
        rows.append([*cells, float(bits.mean()), time])
    diverged = sum("bits" not in row for row in result["trials"])
    state = [[name, *sizes] for name, sizes in result["state_bytes"].items()]
    lengths = [f"after {length}" for length in result["state_lengths"]]
    columns = ["model", "tokens looked at", "flop of a step", "steps", "lr"]
    return Section(
        "What each costs and carries",
        [
            "A token looks at fewer others where the pattern is sparse, so a step costs less and "
            "the same compute pays for more steps. At this length most of the compute is in the "
            "matrix products that all models share: the longer the sequence, the more there is to "
            f"save. Trainings that diverged: {diverged} of {len(result['trials'])}.",
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


def _least_and_most(result: dict[str, Any]) -> str:
    last = {name: sizes[-1] for name, sizes in result["state_bytes"].items()}
    least, most = min(last, key=last.__getitem__), max(last, key=last.__getitem__)
    length = result["state_lengths"][-1]
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


def first_trial(result: dict[str, Any], name: str) -> dict[str, Any]:
    """What the first seed of a model did."""
    row: dict[str, Any] = next(row for row in result["trials"] if row["model"] == name)
    return row


def rates(result: dict[str, Any]) -> str:
    """Say which learning rate each model took, and whether a better one may lie outside."""
    tried = sorted({row["lr"] for row in result["sweep"]})
    chosen = {name: facts["lr"] for name, facts in result["models"].items()}
    said = ", ".join(f"{name} {rate:g}" for name, rate in chosen.items())
    if len(tried) == 1:
        return f"There was one learning rate only, {tried[0]:g}: nothing was swept."
    ends = [name for name, rate in chosen.items() if rate in (tried[0], tried[-1])]
    beyond = (
        f" At an end of the sweep: {', '.join(ends)}; there may be better ones." if ends else ""
    )
    return (
        "The first seed of each model tried the learning rates "
        f"{', '.join(f'{rate:g}' for rate in tried)}, and the best one on the held-out data was "
        f"kept for all its seeds: {said}.{beyond}"
    )


def watch(result: dict[str, Any], runs: Path) -> dict[str, LooksResult]:
    """Where the first seed of every model looks while it reads held-out data."""
    seen = {}
    for name in result["models"]:
        row = first_trial(result, name)
        if "bits" not in row:
            continue
        run = Run.open(runs / row["run"])
        batch = run.config.task.batch(0, WATCHED, seed=0, split="valid")
        lens = AttentionMaps()
        lens.observe(run.model(), torch.from_numpy(batch.tokens))
        seen[name] = lens.result()
    return seen


def distances(seen: dict[str, LooksResult], unit: str) -> list[str | Figure]:
    """How far each layer looks back, beside an even look at all that its pattern allows."""
    series, rows, far = [], [], []
    for name, one in seen.items():
        table = one.table()
        layers = [row["layer"] for row in table]
        column = {key: [row[key] for row in table] for key in ("distance", "low", "high", "even")}
        series.append(Series(name, layers, column["distance"], column["low"], column["high"]))
        rows += [{"model": name, **row} for row in table]
        share = np.array(column["distance"]) / np.array(column["even"])
        far.append(f"{name} {share.min():.2f} to {share.max():.2f}")
    return [
        "Mean distance looked back over, as a share of what an even look at all that the pattern "
        f"allows would give (1 = no preference), lowest to highest layer: {'; '.join(far)}.",
        Figure(
            "Distance looked back over",
            lines(series, "layer", f"{unit} back, mean").update_xaxes(dtick=1),
            "Line: mean over rows, heads and places of the first seed; band: all rows but the "
            "lowest and highest tenth. The data hold the even look beside each.",
            rows,
        ),
    ]
