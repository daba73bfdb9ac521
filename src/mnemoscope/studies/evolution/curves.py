"""Curves over layers, as all pages of the study `evolution` draw them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from numpy.typing import ArrayLike

from mnemoscope.core.arrays import Floats
from mnemoscope.plots.figure import Reference, lines
from mnemoscope.report.document import Figure
from mnemoscope.studies.evolution.result import OBJECTIVES, ByFrequency, EvolutionResult, Examined
from mnemoscope.studies.sentences import Banded, banded

BAND = "Line: mean over trainings; band: lowest to highest."
SEEDS = f"{BAND} Layer 0 is the embeddings."


def over_layers(
    name: str, values: Floats, columns: tuple[str, str, str], first: int = 0, style: int = 0
) -> Banded:
    """A curve over layers from the ``first`` one; values are (trainings or pairs, layers).

    ``columns`` says what the name is of, what is counted, and what the values are.
    """
    layers = range(first, first + values.shape[1])
    return banded(name, layers, values, ("layer", columns[2]), columns[:2], style)


def by_objective(
    result: EvolutionResult,
    of: Callable[[Examined], ArrayLike],
    among: Sequence[str] = OBJECTIVES,
    first: int = 0,
) -> list[Banded]:
    """The same curve of several objectives, each in its own style."""
    columns = ("objective", "training", "value")
    return [
        over_layers(one, result.curves(one, of), columns, first, OBJECTIVES.index(one))
        for one in among
    ]


def by_layer(
    name: str, curves: list[Banded], y: str, caption: str, references: Sequence[Reference] = ()
) -> Figure:
    """A figure of such curves."""
    figure = lines([series for series, _ in curves], "layer", y, references=references)
    figure.update_xaxes(dtick=1)
    return Figure(name, figure, caption, [row for _, rows in curves for row in rows])


def by_group(
    result: EvolutionResult, what: str, by: str, of: Callable[[Examined], ByFrequency]
) -> list[Figure]:
    """One figure for every objective, with a curve for every group of tokens."""
    groups = of(result.examined()[0]).groups
    ranks = " Rank 1 is the most frequent token." if by == "frequency" else ""
    figures = []
    for objective in OBJECTIVES:
        # (trainings, groups, layers)
        values = result.curves(objective, lambda one: of(one).distance)
        figures.append(
            by_layer(
                f"{what.capitalize()} by {by} in {objective}",
                [
                    over_layers(group, values[:, n], ("group", "training", what), first=1, style=n)
                    for n, group in enumerate(groups)
                ],
                f"{what} (PWCCA distance)",
                f"{BAND}{ranks}",
            )
        )
    return figures
