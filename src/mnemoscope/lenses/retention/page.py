"""Sentences, the yardstick and the curves of what models retain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mnemoscope.plots.figure import Plot, Series, lines
from mnemoscope.report.document import Cell, Figure, Section, Table

if TYPE_CHECKING:
    from mnemoscope.lenses.retention.result import Curve, RetentionResult

TITLES = {
    "age": "age (tokens since the write)",
    "items": "items stored",
    "overwrites": "items overwritten",
}


def sections(results: Mapping[str, RetentionResult]) -> list[Section]:
    """Of models by name: a sentence each, one table, and a figure for each of the curves."""
    parts: list[str | Figure | Table] = [_said(name, one) for name, one in results.items()]
    parts.append(_yardstick(results))
    episodes = next(iter(results.values())).episodes
    for number in range(3):
        curves = {name: one.curves[number] for name, one in results.items()}
        parts.append(_figure(curves, episodes))
    return [Section("What was seen", parts)]


def compared(curves: Mapping[str, Curve]) -> Plot:
    """Curves of several models; of one, the curve with its controls."""
    first, *others = curves.values()
    if not others:
        return first.figure()
    series = [Series(name, one.x, one.bits, one.low, one.high) for name, one in curves.items()]
    return lines(series, TITLES[first.along], "bits recalled", log_x=first.x[0] > 0)


def _said(name: str, found: RetentionResult) -> str:
    how = "on the task it was trained on" if found.trained else "in context, without training"
    ages = found.by_age
    control = max(max(curve.blanked + curve.shuffled) for curve in found.curves)
    return (
        f"{name}, asked {how}: {ages.bits[0]:.2f} bits of {ages.most[0]:.2f} are left at age "
        f"{ages.x[0]}, {ages.bits[-1]:.2f} at age {ages.x[-1]}. Half-life: {found.half_life} "
        f"tokens; horizon: {found.horizon} tokens. At most {found.capacity:.2f} bits of one "
        f"episode, in {found.bytes:.0f} bytes: {found.per_byte:.4f} bits per byte. With the state "
        f"blanked or the answers shuffled, no more than {control:.2f} bits."
    )


def _yardstick(results: Mapping[str, RetentionResult]) -> Table:
    return Table(
        "Yardstick",
        ["model", "bits", "bytes", "bits/byte", "bits/MFLOP", "half-life", "horizon"],
        [_facts(name, one) for name, one in results.items()],
        "Most bits recalled of one episode, and the bytes that one stream carries meanwhile. In "
        "brackets: 95 % bootstrap intervals over episodes.",
    )


def _facts(name: str, one: RetentionResult) -> list[Cell]:
    ratios: list[Cell] = [round(one.per_byte, 5), round(1e6 * one.per_flop, 4)]
    return [
        name, round(one.capacity, 3), round(one.bytes), *ratios, str(one.half_life),
        str(one.horizon),
    ]  # fmt: skip


def _figure(curves: Mapping[str, Curve], episodes: int) -> Figure:
    along = next(iter(curves.values())).along
    return Figure(
        f"Recall by {along}",
        compared(curves),
        "Σ max(0, log₂ V − cross-entropy) over the questions of an episode, mean cross-entropies "
        f"of {episodes} episodes. Band: 95 % bootstrap.",
        [{"model": name} | row for name, one in curves.items() for row in one.table()],
    )
