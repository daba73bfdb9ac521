"""Sentences, the yardstick and the curves of what models retain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from mnemoscope.lenses.retention.episodes import CHANCE
from mnemoscope.plots.figure import Plot, Series, lines
from mnemoscope.report.document import Cell, Figure, Section, Table, finding

if TYPE_CHECKING:
    from mnemoscope.lenses.retention.result import Curve, Estimate, RetentionResult

TITLES = {
    "age": "age (tokens since the write)",
    "items": "items stored",
    "overwrites": "items overwritten",
}


def sections(results: Mapping[str, RetentionResult]) -> list[Section]:
    """Of models by name: what is left at each age, then a sentence each and the other curves."""
    episodes = next(iter(results.values())).episodes
    ages, *others = (
        _figure({name: one.curves[number] for name, one in results.items()}, episodes)
        for number in range(3)
    )
    evidence = [_said(name, one) for name, one in results.items()]
    lead = _alone(*results.values()) if len(results) == 1 else _ranked(results)
    return [
        finding(*lead, _controls(results), figure=ages),
        Section("Evidence", [*evidence, _yardstick(results), *others]),
    ]


def compared(curves: Mapping[str, Curve]) -> Plot:
    """Curves of several models; of one, the curve with its controls."""
    first, *others = curves.values()
    if not others:
        return first.figure()
    series = [Series(name, one.x, one.bits, one.low, one.high) for name, one in curves.items()]
    return lines(series, TITLES[first.along], "bits recalled", log_x=first.x[0] > 0)


def _alone(found: RetentionResult) -> list[str]:
    """What one model still knows at the youngest and at the oldest age, and how long it lasts."""
    ages = found.by_age
    if found.horizon.value == 0:
        best = int(np.argmax(ages.bits))
        return [
            f"What {found.model} recalls is not distinguishable from chance at any age: at most "
            f"{ages.said(best)} of {ages.most[best]:.2f} bits, at age {ages.x[best]}."
        ]
    return [
        f"{found.model} recalls {ages.said(0)} of {ages.most[0]:.2f} bits at age {ages.x[0]} and "
        f"{ages.said(-1)} at age {ages.x[-1]}, the oldest asked.",
        _lasting(found),
    ]


def _ranked(results: Mapping[str, RetentionResult]) -> list[str]:
    """Who knows most at the oldest age at which anybody still knows something."""
    first = next(iter(results.values())).by_age
    chance = CHANCE * first.most[0]
    known = [at for at in range(len(first.x)) if _best(results, at)[0][1].bits[at] >= chance]
    if not known:
        return [
            "What these models recall is not distinguishable from chance at any age from "
            f"{first.x[0]} to {first.x[-1]}."
        ]
    at = known[-1]
    (name, best), (other, second), *_ = _best(results, at)
    told = f"At age {first.x[at]} {name} recalls most, {best.said(at)} of {best.most[at]:.2f} bits"
    if best.low[at] > second.high[at]:
        said = [f"{told}; next is {other} with {second.said(at)}."]
    else:
        said = [f"{told}, which is not distinguishable from {other} with {second.said(at)}."]
    if at + 1 < len(first.x):
        said.append(f"From age {first.x[at + 1]} on, none is distinguishable from chance.")
    return said


def _best(results: Mapping[str, RetentionResult], at: int) -> list[tuple[str, Curve]]:
    """Models by name with their curves, the one that recalls most at a point first."""
    curves = [(name, one.by_age) for name, one in results.items()]
    return sorted(curves, key=lambda one: -one[1].bits[at])


def _controls(results: Mapping[str, RetentionResult]) -> str:
    curves = [curve for one in results.values() for curve in one.curves]
    control = max(max(curve.blanked + curve.shuffled) for curve in curves)
    return (
        f"With the state blanked or the answers shuffled, at most {control:.2f} bits are recalled."
    )


def _lasting(found: RetentionResult) -> str:
    """Half-life and horizon as a sentence."""
    oldest = found.by_age.x[-1]
    if found.horizon.value == 0:
        return "It recalls nothing at any age, so it has neither a half-life nor a horizon."

    def after(estimate: Estimate) -> str:
        low, high = (
            f"beyond {oldest}" if end is None else f"{end:.3g}"
            for end in (estimate.low, estimate.high)
        )
        return f"after {estimate.value:.3g} tokens ({low} to {high})"

    if found.horizon.value is not None:
        lost = f"falls to chance {after(found.horizon)}"
        if found.half_life.value is None:
            return f"What it recalls {lost}."
        return f"Half of what it recalls is lost {after(found.half_life)}, and the rest {lost}."
    if found.half_life.value is None:
        return f"More than half of what it recalls is left at age {oldest}."
    return f"Half of what it recalls is lost {after(found.half_life)}, not all by age {oldest}."


def _said(name: str, found: RetentionResult) -> str:
    how = "on the task it was trained on" if found.trained else "in context, without training"
    return (
        f"{name} was asked {how}. {_lasting(found)} At most {found.capacity:.2f} bits of one "
        f"episode are recalled, from {found.bytes:.0f} bytes: {found.per_byte:.4f} bits per byte."
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
