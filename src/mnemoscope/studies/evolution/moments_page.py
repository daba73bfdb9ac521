"""What the page of the study `evolution` shows of training: the same curves, moment by moment.

On the screen a slider goes through the moments; on paper they stand side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.plots.figure import Reference, lines
from mnemoscope.plots.images import slider
from mnemoscope.plots.small_multiples import small_multiples
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.evolution.claims import PAIRS
from mnemoscope.studies.evolution.curves import SEEDS, over_layers
from mnemoscope.studies.evolution.result import OBJECTIVES, Curve, EvolutionResult, Moment
from mnemoscope.studies.sentences import Banded, banded

# Below the title of the axis.
PAD = 64
ON_PAPER = 4


def of_moments(result: EvolutionResult) -> list[Section]:
    """The section of a result that has moments; none of one that has not."""
    steps = _steps(result)
    if not steps:
        return []
    return [
        Section(
            "How it came about",
            [
                f"The same lenses after {', '.join(map(str, steps))} steps. They read fewer "
                "tokens here than at the end of training, with one clustering each: moments can "
                "be compared with each other, and with no other figure.",
                _losses(result, steps),
                _table(result, steps),
                *_film(
                    "Nats about the token read while training",
                    "nats about the token read",
                    _curves(result, steps, lambda one: one.information["token"]),
                ),
                *_film(
                    "Nats about the next token while training",
                    "nats about the next token",
                    _curves(result, steps, lambda one: one.information["next"]),
                ),
                *_film(
                    "Nats about a hidden token while training",
                    "nats about the hidden token",
                    _curves(result, steps, lambda one: one.hidden or (), ("LM", "MLM")),
                ),
                *_film(
                    "Change from layer to layer while training",
                    "PWCCA distance to the layer below",
                    _curves(result, steps, lambda one: one.change, first=1),
                ),
                *_film(
                    "Neighbours that are the same token while training",
                    "share",
                    _curves(result, steps, lambda one: one.neighbours["token"]),
                ),
                *_film(
                    "Distance between objectives while training",
                    "PWCCA distance",
                    _apart(result),
                    "Line: mean over pairs of trainings; band: lowest to highest. Layer 0 is the "
                    "embeddings.",
                ),
                *(
                    _by_frequency(result, steps, name, of, more)
                    for name, of, more in (
                        ("Change", lambda one: one.change_by_group.distance, "most frequent"),
                        ("Influence", lambda one: one.influence.distance, "rarest"),
                    )
                ),
            ],
        )
    ]


def _steps(result: EvolutionResult) -> list[int]:
    """Steps that every training was looked at after."""
    seen = [{one.step for one in trained.moments} for trained in result.examined()]
    return sorted(set.intersection(*seen)) if seen else []


def _values(
    result: EvolutionResult, objective: str, step: int, of: Callable[[Moment], object]
) -> Floats:
    """Some numbers of one objective after so many steps, (trainings, …)."""
    seen = result.examined(objective)
    return np.array([of(one) for trained in seen for one in trained.moments if one.step == step])


Frames = Mapping[int, list[Banded]]


def _curves(
    result: EvolutionResult,
    steps: Sequence[int],
    of: Callable[[Moment], Curve],
    among: Sequence[str] = OBJECTIVES,
    first: int = 0,
) -> Frames:
    """The curves over layers of all objectives, by step."""
    columns = ("objective", "training", "value")
    return {
        step: [
            over_layers(
                name, _values(result, name, step, of), columns, first, OBJECTIVES.index(name)
            )
            for name in among
        ]
        for step in steps
    }


def _apart(result: EvolutionResult) -> Frames:
    """Distances between objectives and between seeds, by step."""
    named = [(f"{a} – {b}", a, b) for a, b in PAIRS]
    named += [(f"{o}, seeds only", o, o) for o in OBJECTIVES]
    frames: dict[int, list[Banded]] = {}
    for moment in result.moments:
        found = [
            (name, number, result.between(left, right, among=moment.distances))
            for number, (name, left, right) in enumerate(named)
        ]
        frames[moment.step] = [
            over_layers(name, values, ("pair", "number", "pwcca"), style=number)
            for name, number, values in found
            if len(values)
        ]
    return frames


def _film(name: str, y: str, frames: Frames, caption: str = SEEDS) -> list[Figure]:
    """The same curves with a slider through the steps, and side by side."""
    if not frames:
        return []
    ends = [
        (float(np.min(series.low)), float(np.max(series.high)))
        for curves in frames.values()
        for series, _ in curves
        if series.low is not None and series.high is not None
    ]
    low, high = min(one for one, _ in ends), max(one for _, one in ends)
    span = (low - 0.05 * (high - low), high + 0.05 * (high - low))
    drawn = {}
    for step, curves in frames.items():
        figure = lines([series for series, _ in curves], "layer", y, y_range=span)
        figure.update_xaxes(dtick=1)
        drawn[f"step {step}"] = figure
    rows: list[dict[str, Cell]] = [
        {"step": step, **row} for step, curves in frames.items() for _, own in curves for row in own
    ]
    sheet = small_multiples(list(drawn.items()), columns=min(ON_PAPER, len(drawn)), ghosts=False)
    moving = slider(drawn, "after")
    moving.layout.sliders[0].pad.t = PAD
    return [
        Figure(name, moving, f"{caption} The slider goes through training.", rows),
        Figure(f"{name}, side by side", sheet, caption, rows),
    ]


def _losses(result: EvolutionResult, steps: Sequence[int]) -> Figure:
    found = []
    for number, objective in enumerate(OBJECTIVES):
        # (steps, trainings)
        values = np.array(
            [_values(result, objective, s, lambda one: one.valid_loss) for s in steps]
        )
        columns, of = ("step", "validation loss"), ("objective", "training")
        found.append(banded(objective, list(steps), values.T, columns, of, number))
    figure = lines([one for one, _ in found], "step", "validation loss (nats)")
    caption = "Line: mean over trainings; band: lowest to highest. Of different questions."
    rows = [row for _, own in found for row in own]
    return Figure("Loss at the moments of training", figure, caption, rows)


def _table(result: EvolutionResult, steps: Sequence[int]) -> Table:
    """Effect sizes of four orderings, step by step."""

    def known(objective: str, target: str, step: int) -> Floats:
        return _values(result, objective, step, lambda one: one.information[target])

    rows: list[list[Cell]] = []
    for step in steps:
        lm, mlm, mt = (known(name, "token", step) for name in ("LM", "MLM", "MT"))
        following = known("LM", "next", step)
        effects = (
            lm[:, 0] - lm[:, -1],
            following[:, -1] - following[:, 0],
            np.minimum(mlm[:, 0], mlm[:, -1]) - mlm.min(1),
            mt[:, 0] - mt[:, -1],
        )
        rows.append([step, *(float(one.mean()) for one in effects)])
    return Table(
        "Orderings while training",
        [
            "step",
            "LM loses of the token read",
            "LM gains about the next token",
            "MLM rebuilds of the token read",
            "MT loses of the token read",
        ],
        rows,
        "Nats, means over trainings: from the embeddings to the top layer, and of the MLM from its "
        "lowest layer to the lower of both ends.",
    )


def _by_frequency(
    result: EvolutionResult,
    steps: Sequence[int],
    name: str,
    of: Callable[[Moment], tuple[Curve, ...]],
    more: str,
) -> Figure:
    """How many times as much the most frequent tokens have as the rarest, or the other way."""
    found = []
    for number, objective in enumerate(OBJECTIVES):
        ratios = []
        for step in steps:
            # (trainings, groups); the mean over layers counts.
            groups = _values(result, objective, step, of).mean(2)
            ends = groups[:, 0] / groups[:, -1]
            ratios.append(ends if more == "most frequent" else 1 / ends)
        columns, kind = ("step", "ratio"), ("objective", "training")
        found.append(banded(objective, list(steps), np.array(ratios).T, columns, kind, number))
    less = "rarest" if more == "most frequent" else "most frequent"
    y = f"{name.lower()}: {more} over {less}"
    figure = lines([one for one, _ in found], "step", y, references=[Reference(1.0, "equal")])
    return Figure(
        f"{name} by frequency while training",
        figure,
        f"Line: mean over trainings; band: lowest to highest. Above one the {more} tokens have "
        f"more {name.lower()} than the {less}, in the mean over layers.",
        [row for _, own in found for row in own],
    )
