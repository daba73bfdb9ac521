"""What the pages of `images` and `patterns` share: curves, order, what each costs and carries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.lenses.lens import Records, records
from mnemoscope.memories.sparse.patterns import Pattern, hops
from mnemoscope.plots.figure import Reference, Series, heatmap, lines
from mnemoscope.plots.images import slider, tiles
from mnemoscope.report.claims import claims_table
from mnemoscope.report.document import Cell, Figure, Section, Table, finding
from mnemoscope.studies.contest.claims import LEAST, claims, findings, order
from mnemoscope.studies.contest.result import Attended, ContestResult, distance_bins
from mnemoscope.studies.sentences import band, best_rates, mean_or_none, over_seeds, signs


def sections(
    result: ContestResult,
    unit: str,
    counted: Mapping[str, float],
    asked: Sequence[tuple[str, str]],
    meaning: str,
    seen: Sequence[Section],
    hops: Section,
) -> list[Section]:
    """The page of a contest, with what its study has ``seen``, and two ``hops``.

    ``counted`` has the bits of models that only count, ``asked`` pairs of models: does the first
    need fewer bits than the second?
    """
    known = ", ".join(f"{name} {bits:.3f}" for name, bits in counted.items())
    where = "test" if result.tested else "held-out"
    return [
        finding(*findings(result, unit, counted), figure=_curves(result, unit, counted, meaning)),
        Section(
            "What is claimed",
            [
                f"Models that only count, bits per {unit}: {known}. A model takes part in the "
                "order, and anything is claimed of it, only if all its trainings beat all of them.",
                claims_table("What is claimed", claims(result, counted, asked)),
            ],
        ),
        *seen,
        hops,
        costs(result, unit),
        Section(
            "Who before whom, and at which rate",
            [
                f"Bits per {unit} on {where} data, best first: {order(result, counted)}. "
                f"{signs(LEAST, 'bits', lowest_first=True)}",
                _rates(result),
            ],
        ),
    ]


def _curves(result: ContestResult, unit: str, counted: Mapping[str, float], meaning: str) -> Figure:
    """Held-out bits against compute, with the seeds as bands."""
    references = [Reference(bits, name) for name, bits in counted.items()]
    series: list[Series] = []
    rows: list[dict[str, Cell]] = []
    for name, facts in result.models.items():
        known = [(one.seed, one.curve) for one in result.of(name) if one.curve]
        if not known:
            continue
        seeds, found = zip(*known, strict=True)
        steps, bits = found[0].steps, np.array([curve.bits for curve in found])
        spent = np.array(steps) * facts.flop / 1e12
        series.append(band(name, spent, bits))
        axes = {"model": [name], "seed": seeds, "step": steps}
        rows += records(axes, {"teraflop": spent, "bits": bits})
    return Figure(
        f"Bits per {unit} against compute",
        lines(series, "compute (10¹² flop)", f"held-out bits per {unit}", references=references),
        f"{over_seeds(result.seeds)} All models end at the same compute. {meaning}",
        rows,
    )


def costs(result: ContestResult, unit: str) -> Section:
    """What each pattern looks at, costs and carries."""
    rows: list[list[Cell]] = []
    times: dict[str, float | None] = {}
    for name, facts in result.models.items():
        bits = result.final_bits(name)
        time = mean_or_none([one.curve.seconds for one in result.of(name) if one.curve])
        share = facts.flop / next(iter(result.models.values())).flop
        cells: list[Cell] = [name, facts.pairs, share, facts.steps, f"{facts.lr:g}"]
        rows.append([*cells, float(bits.mean()), time])
        times[name] = time
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
            f"save. {_measured(times)}Trainings that diverged: {diverged} of "
            f"{len(result.trainings)}.",
            Table(
                "Cost of a step",
                [*columns, f"bits per {unit}", "training s"],
                rows,
                "Tokens attended to: mean over layers, heads and positions. Flop of a step: "
                "relative to the first model. Training time of one model on one thread.",
            ),
            "While it draws or writes, a model carries what its patterns can still look at. "
            + _least_and_most(result),
            Table(
                "Bytes of state",
                ["model", *lengths],
                state,
                "Measured, one stream, all layers: keys and values in float32, positions in int64.",
            ),
        ],
    )


def _measured(times: Mapping[str, float | None]) -> str:
    """Equal compute is counted: say what time it took, against the first model."""
    known = {name: time for name, time in times.items() if time}
    first, *others = known or [""]
    if not others:
        return ""
    shares = ", ".join(f"{name} {known[name] / known[first]:.2f}" for name in others)
    return f"Equal compute took unequal time, measured against {first}: {shares}. "


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


def _rates(result: ContestResult) -> str:
    """Say which learning rate each model took, and whether a better one may lie outside."""
    tried = sorted({one.lr for one in result.sweep})
    chosen = {name: facts.lr for name, facts in result.models.items()}
    where = (
        "Bits are reported on a third part of the data, by which nothing was chosen."
        if result.tested
        else "In this older result the bits reported are of the same data."
    )
    return (
        "The first seed of each model tried the learning rates "
        f"{', '.join(f'{rate:g}' for rate in tried)}, and the best one on held-out data was "
        f"kept for all its seeds: {best_rates(chosen, tried)} {where}"
    )


def _by_distance(result: ContestResult, unit: str) -> list[Figure]:
    """The share of attention at every distance, at every depth: all heads, and each."""
    seen = {name: np.array(one.by_distance) for name, one in result.attended.items()}
    if not all(shares.size for shares in seen.values()):
        return []
    names = [f"{name} {layer + 1}" for name, one in seen.items() for layer in range(len(one))]
    bins = distance_bins(result.length)
    heads = len(next(iter(seen.values()))[0])
    numbers = {"head": range(1, heads + 1), "distance": bins}
    rows: Records = []
    for name, shares in seen.items():
        axes = {"model": [name], "layer": range(1, len(shares) + 1), **numbers}
        rows += records(axes, {"share": shares})
    chosen = {"all": slice(None)} | {str(n + 1): slice(n, n + 1) for n in range(heads)}
    pictures = {
        label: heatmap(
            np.sqrt(np.concatenate([shares[:, some].mean(1) for shares in seen.values()])),
            bins,
            names,
            f"{unit} back",
            "model and layer",
            "√share",
            z_range=(0, 1),
        )
        for label, some in chosen.items()
    }
    return [
        Figure(
            "Attention by distance at every depth",
            slider(pictures, "heads"),
            "First seed of each model, held-out data, queries of the second half: how much of its "
            "attention each layer gives to each distance, as roots so that small shares show. Move "
            "the slider from all heads to single ones.",
            rows,
        )
    ]


def heads_figure(
    name: str,
    seen: Mapping[str, Attended],
    axes: tuple[str, str],
    shade: Callable[[Floats], Floats],
    marked: tuple[int, int] | None = None,
) -> list[Figure]:
    """What every head looks at, at every depth, one model at a time; older results have none."""
    if not all(one.by_head for one in seen.values()):
        return []
    pages = {}
    table: Records = []
    for model, one in seen.items():
        maps = np.array(one.by_head, float).swapaxes(0, 1)  # (heads, layers, rows, columns)
        heads = [f"head {number + 1}" for number in range(maps.shape[0])]
        layers = [f"layer {number + 1}" for number in range(maps.shape[1])]
        pictures = [[shade(picture) for picture in row] for row in maps]
        pages[model] = tiles(pictures, heads, layers, "√weight", marked=marked)
        table += weight_rows(model, maps, "head", "layer", *axes)
    told = "First seed of each model, every head at every depth. The slider goes through patterns."
    return [Figure(name, slider(pages, "pattern"), told, table)]


def weight_rows(model: str, maps: Floats, *axes: str) -> Records:
    """Attention weights above zero; layers and heads are counted from one."""
    first = (int(name in ("layer", "head")) for name in axes)
    sizes = zip(axes, first, maps.shape, strict=True)
    places = {name: range(start, start + size) for name, start, size in sizes}
    rows = records({"model": [model], **places}, {"weight": maps})
    return [row for row in rows if row["weight"] > 0]


def distances(result: ContestResult, unit: str) -> list[str | Figure]:
    """How far each layer attends back, beside uniform attention to all that its pattern allows."""
    series: list[Series] = []
    rows: list[dict[str, Cell]] = []
    far = []
    for name, one in result.attended.items():
        layers = range(1, len(one.patterns) + 1)
        series.append(Series(name, layers, one.distance, one.low, one.high))
        columns = {"pattern": one.patterns, "distance": one.distance, "low": one.low}
        columns |= {"high": one.high, "even": one.even}
        rows += records({"model": [name], "layer": layers}, columns)
        share = np.array(one.distance) / np.array(one.even)
        far.append(f"{name} {share.min():.2f} to {share.max():.2f}")
    return [
        "Mean distance attended back over, as a share of what uniform attention to all that the "
        "pattern allows would give (1 = no preference), lowest to highest layer: "
        f"{'; '.join(far)}.",
        Figure(
            "Distance looked back over",
            lines(series, "layer", f"{unit} back, mean").update_xaxes(dtick=1),
            "Line: mean over rows, heads and positions of the first seed; band: all rows but the "
            "lowest and highest tenth. The data hold uniform attention beside each.",
            rows,
        ),
        *_by_distance(result, unit),
    ]
