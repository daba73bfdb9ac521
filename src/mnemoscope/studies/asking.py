"""The lens `retention` on any models, as sections of a page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mnemoscope.core.errors import UserError
from mnemoscope.core.progress import progress
from mnemoscope.data.recall import Recall
from mnemoscope.lenses.retention.episodes import RetentionOptions
from mnemoscope.lenses.retention.lens import TITLES, Curve, Retention, RetentionResult
from mnemoscope.open import Stream, open_stream
from mnemoscope.plots.figure import Series, lines
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.inspection import Inspection
from mnemoscope.training.run import Run

NAMES = {"age": "Recall by age", "items": "Recall by items", "overwrites": "Recall by overwrites"}


def retention(models: Sequence[Any], **options: Any) -> Inspection:
    """Ask models what they still know; ``options`` are those of `RetentionOptions`.

    A run that was trained on recall is asked on its own task, every other model in context.
    """
    chosen = RetentionOptions.make(**options)
    if not models:
        raise UserError("name at least one model")
    lenses = [_lens(model, chosen) for model in models]
    found = []
    with progress("asking", len(lenses)) as show:
        for number, lens in enumerate(lenses, start=1):
            found.append(lens.ask())
            show(number, lens.stream.name)
    names = _distinct([one.model for one in found])
    parts: list[Any] = [
        _said(name, one, lens) for name, one, lens in zip(names, found, lenses, strict=True)
    ]
    parts.append(_table(names, found))
    for place in range(3):
        curves = {name: one.curves[place] for name, one in zip(names, found, strict=True)}
        parts.append(_figure(curves, chosen.episodes))
    question = (
        f"What does {' and '.join(names)} still know of what was read, and in how many bytes?"
    )
    return Inspection("Retention", question, [Section("What was seen", parts)])


def _lens(model: Any, options: RetentionOptions) -> Retention:
    task = None
    if isinstance(model, str | Path) and os.path.isfile(Path(model) / "config.yaml"):
        learnt = Run.open(model).config.task
        task = learnt if isinstance(learnt, Recall) else None
    stream = open_stream(model)
    return Retention(stream, task, options, avoid=_special(stream))


def _special(stream: Stream) -> list[int]:
    """Ids that a model of transformers keeps for its own use."""
    config = getattr(getattr(stream.call, "model", None), "config", None)
    ids = [getattr(config, f"{name}_token_id", None) for name in ("bos", "eos", "pad")]
    listed = [one if isinstance(one, list) else [one] for one in ids]
    return [one for some in listed for one in some if isinstance(one, int)]


def _distinct(names: Sequence[str]) -> list[str]:
    return [
        name if names.count(name) == 1 else f"{name} ({number})"
        for number, name in enumerate(names, start=1)
    ]


def _said(name: str, found: RetentionResult, lens: Retention) -> str:
    how = "on the task it was trained on" if lens.trained else "in context, without training"
    ages = found.by_age
    control = max(max(curve.blanked + curve.shuffled) for curve in found.curves)
    return (
        f"{name}, asked {how}: {ages.bits[0]:.2f} bits of {ages.most[0]:.2f} are left at age "
        f"{ages.x[0]}, {ages.bits[-1]:.2f} at age {ages.x[-1]}. Half-life: {found.half_life} "
        f"tokens; horizon: {found.horizon} tokens. At most {found.capacity:.2f} bits of one "
        f"episode, in {found.bytes:.0f} bytes: {found.per_byte:.4f} bits per byte. With the state "
        f"blanked or the answers shuffled, no more than {control:.2f} bits."
    )


def _table(names: Sequence[str], found: Sequence[RetentionResult]) -> Table:
    return Table(
        "Yardstick",
        ["model", "bits", "bytes", "bits/byte", "bits/MFLOP", "half-life", "horizon"],
        [_facts(name, one) for name, one in zip(names, found, strict=True)],
        "Most bits recalled of one episode, and the bytes that one stream carries meanwhile. In "
        "brackets: 95 % bootstrap intervals over episodes.",
    )


def _facts(name: str, one: RetentionResult) -> list[Cell]:
    ratios: list[Cell] = [round(one.per_byte, 5), round(1e6 * one.per_flop, 4)]
    return [
        name, round(one.capacity, 3), round(one.bytes), *ratios, str(one.half_life),
        str(one.horizon),
    ]  # fmt: skip


def _figure(curves: dict[str, Curve], episodes: int) -> Figure:
    first = next(iter(curves.values()))
    caption = (
        f"Σ max(0, log₂ V − cross-entropy) over the questions of an episode, mean cross-entropies "
        f"of {episodes} episodes. Band: 95 % bootstrap."
    )
    if len(curves) == 1:
        drawn = first.figure()
    else:
        series = [Series(name, one.x, one.bits, one.low, one.high) for name, one in curves.items()]
        drawn = lines(series, TITLES[first.along], "bits recalled", log_x=first.x[0] > 0)
    data = [{"model": name} | row for name, one in curves.items() for row in one.table()]
    return Figure(NAMES[first.along], drawn, caption, data)
