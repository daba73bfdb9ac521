"""The page of the study `sorting`: every figure and every sentence is computed from its result."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemoscope.plots.figure import Reference, Region, Series, heatmap, lines
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.sentences import SIGNS, banded, ranked
from mnemoscope.studies.sorting.attention import Looking, look

Floats = NDArray[np.float64]
Result = dict[str, Any]
WAYS = {
    "forced": ("Teacher-forced", "it is told the right symbols so far"),
    "free": ("Speaking freely", "it reads its own answers, so that one mistake moves all others"),
}
ROWS = 16


def tell(result: Result, runs: Path) -> Sequence[Section]:
    """Build the sections of the page."""
    return [_kept(result), _carried(result), *_looking(result, runs)]


def scores(result: Result, model: str, trained: int, what: str) -> Floats:
    """Accuracy of one model trained at one length, (seeds, lengths tested); diverged = chance."""
    lost = [result["chance"]] * len(result["tested"])
    return np.array(
        [
            row.get(what, lost)
            for row in result["trials"]
            if row["model"] == model and row["trained"] == trained
        ]
    )


def _label(result: Result, model: str) -> str:
    name: str = result["models"][model]["label"]
    return name


def _at(result: Result, trained: int, length: int, what: str) -> dict[str, Floats]:
    place = result["tested"].index(length)
    return {
        _label(result, model): scores(result, model, trained, what)[:, place]
        for model in result["models"]
    }


def _kept(result: Result) -> Section:
    tested, window = result["tested"], result["window"]
    parts: list[str | Figure | Table] = []
    for trained in result["trained"]:
        at = max((length for length in tested if length <= trained), default=tested[0])
        parts.append(
            f"Trained on streams of {trained} tokens, told the right symbols so far, at {at}: "
            f"{ranked(_at(result, trained, at, 'forced'))}."
        )
        if tested[-1] > at:
            parts.append(
                f"The same models after {tested[-1]}: "
                f"{ranked(_at(result, trained, tested[-1], 'forced'))}."
            )
        parts.append(_against_oracle(result, trained, at))
    parts.append(SIGNS)
    for trained in result["trained"]:
        for what in WAYS:
            parts.append(_curve(result, trained, what, window))
    if len(result["trained"]) > 1:
        parts.insert(len(parts) - 2 * len(result["trained"]), _each_at_its_own(result))
    return Section("What was seen", parts)


def _against_oracle(result: Result, trained: int, length: int) -> str:
    place = result["tested"].index(length)
    window = result["oracles"][str(result["window"])][place]
    values = _at(result, trained, length, "forced")
    beat = [name for name, seeds in values.items() if seeds.min() > window]
    others = [name for name in values if name not in beat]
    if not beat:
        return (
            f"Nobody beats, with all seeds, one who counts the last {result['window']} tokens "
            f"exactly ({window:.2f}): nothing shows that more than that is remembered."
        )
    rest = f" {_list(others)} did not." if others else ""
    return (
        f"{_list(beat)} answered better than one who counts the last {result['window']} tokens "
        f"exactly ({window:.2f}), so they remember more than that.{rest}"
    )


def _list(names: Sequence[str]) -> str:
    quoted = [f"“{name}”" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def _curve(result: Result, trained: int, what: str, window: int) -> Figure:
    tested = result["tested"]
    series: list[Series] = []
    rows: list[dict[str, Cell]] = []
    for model in result["models"]:
        values = scores(result, model, trained, what)
        curve, points = banded(_label(result, model), tested, values, ("length", "accuracy"))
        series.append(curve)
        rows += points
    references = []
    if what == "forced":
        all_of_it, some = str(max(tested)), str(window)
        for key, name in ((all_of_it, "counts all"), (some, f"counts the last {window}")):
            series.append(Series(name, tested, result["oracles"][key]))
            rows += [
                {"model": name, "seed": None, "length": length, "accuracy": value}
                for length, value in zip(tested, result["oracles"][key], strict=True)
            ]
        references = [Reference(result["chance"], "chance")]
    way, meaning = WAYS[what]
    seeds = len(scores(result, next(iter(result["models"])), trained, what))
    return Figure(
        f"{way}, trained at {trained}",
        lines(
            series,
            "tokens in the stream",
            "symbols named in their place",
            references=references,
            region=Region(tested[0], trained, "up to the trained length")
            if tested[0] < trained
            else None,
            log_x=True,
            y_range=(0, 1.03),
        ),
        f"{way}: {meaning}. Line: mean of {seeds} seeds; band: lowest to highest."
        + (
            " “counts …” are not models: they know the exact counts of that many tokens, but not "
            "which of two equals came first."
            if what == "forced"
            else ""
        ),
        rows,
    )


def _each_at_its_own(result: Result) -> Figure:
    lengths = [length for length in result["trained"] if length in result["tested"]]
    series: list[Series] = []
    rows: list[dict[str, Cell]] = []
    for model in result["models"]:
        own = [scores(result, model, n, "forced")[:, result["tested"].index(n)] for n in lengths]
        values = np.stack(own, 1)
        curve, points = banded(_label(result, model), lengths, values, ("length", "accuracy"))
        series.append(curve)
        rows += points
    return Figure(
        "Every model at the length it was trained on",
        lines(
            series,
            "tokens in the stream",
            "symbols named in their place",
            references=[Reference(result["chance"], "chance")],
            y_range=(0, 1.03),
        ),
        "Teacher-forced. A training of its own at every length. Band: lowest to highest seed.",
        rows,
    )


def _carried(result: Result) -> Section:
    longest = result["tested"][-1]
    trained = result["trained"][-1]
    rows = []
    for model, facts in result["models"].items():
        values = _at(result, trained, longest, "forced")[_label(result, model)]
        seconds = [
            row["seconds"]
            for row in result["trials"]
            if row["model"] == model and "seconds" in row and row["trained"] == trained
        ]
        time = float(np.mean(seconds)) if seconds else None
        name = _label(result, model)
        rows.append([name, facts["parameters"], facts["state_bytes"], values.mean(), time])
    sizes = [facts["state_bytes"] for facts in result["models"].values()]
    return Section(
        "What each carries",
        [
            f"States have between {min(sizes)} and {max(sizes)} bytes per stream, measured at the "
            "end of a segment. Keys and values of the whole stream would grow with it.",
            Table(
                "Sizes",
                ["model", "parameters", "state bytes", f"accuracy at {longest}", "training s"],
                rows,
                f"Models trained at {trained}; the time is that of one training on one thread.",
            ),
        ],
    )


def _looking(result: Result, runs: Path) -> list[Section]:
    trained, segment = result["trained"][0], result["segment"]
    seen: dict[str, list[Looking]] = {}
    for row in result["trials"]:
        if row["trained"] == trained and "diverged" not in row:
            found = look(runs / row["run"], trained, ROWS, segment)
            seen.setdefault(row["model"], []).append(found)
    signals = {m: looks for m, looks in seen.items() if all(one.means.size for one in looks)}
    sections = [_by_age(result, seen, segment)]
    if signals:
        sections.append(_places(result, signals))
    sticky = seen.get("sticky", [])
    if sticky and sticky[0].over_time.size:
        sections.append(_over_time(sticky[0]))
    return sections


def _by_age(result: Result, seen: dict[str, list[Looking]], segment: int) -> Section:
    series: list[Series] = []
    rows: list[dict[str, Cell]] = []
    oldest: dict[str, float] = {}
    count = 1
    for model, looks in seen.items():
        values = np.stack([one.by_age for one in looks])  # (seeds, ages)
        count = values.shape[1]
        ages = segment * (np.arange(count) + 0.5)
        curve, points = banded(_label(result, model), ages, values, ("age", "share"))
        series.append(curve)
        rows += points
        oldest[curve.name] = float(values[:, count // 2 :].sum(1).mean())
    said = ", ".join(f"{name} {share:.0%}" for name, share in oldest.items())
    return Section(
        "Where they look",
        [
            "To count fairly, every part of the stream should get the same attention. Share of "
            f"attention, while answering, that goes to the older half of the stream: {said}.",
            Figure(
                "Attention by age",
                lines(
                    series,
                    "age (tokens before the question)",
                    "share of attention",
                    references=[Reference(1 / count, "even")],
                ),
                "Share of the attention to what was read that goes to each segment of the stream, "
                "while answering, mean over layers, heads and streams. For a cache: its attention "
                "weights; for a signal: the mass of the looks, at the places tokens went to. Band: "
                "lowest to highest seed.",
                rows,
            ),
        ],
    )


def _places(result: Result, signals: dict[str, list[Looking]]) -> Section:
    parts: list[str | Figure | Table] = [
        "Every look at a signal has a place μ and a width σ. A width near 1 takes in the whole "
        "signal: its mean, which is what counting needs.",
    ]
    edges = {"μ": np.linspace(0, 1, 21), "σ": np.linspace(0, 1.5, 31)}
    names = {"μ": "place of a look (0 = oldest, 1 = newest)", "σ": "width of a look"}
    for sign, bins in edges.items():
        series: list[Series] = []
        rows: list[dict[str, Cell]] = []
        middle = (bins[1:] + bins[:-1]) / 2
        for model, looks in signals.items():
            values = np.stack(
                [
                    np.histogram(one.means if sign == "μ" else one.deviations, bins)[0]
                    / one.means.size
                    for one in looks
                ]
            )
            curve, points = banded(_label(result, model), middle, values, (sign, "share"))
            series.append(curve)
            rows += points
        parts.append(
            Figure(
                "Places of looks" if sign == "μ" else "Widths of looks",
                lines(series, names[sign], "share of looks"),
                f"Histogram of {sign} over all layers, heads and answers of {ROWS} streams. Band: "
                "lowest to highest seed.",
                rows,
            )
        )
    return Section("How they look", parts)


def _over_time(looking: Looking) -> Section:
    masses = looking.over_time  # (writes, bins)
    grouped = masses.reshape(len(masses), 32, -1).sum(2).T[::-1]  # (32, writes), newest first
    places = [f"{(place + 0.5) / 32:.2f}" for place in reversed(range(32))]
    writes = [str(number) for number in range(len(masses))]
    even = 1 / 32
    most = float(grouped.max())
    return Section(
        "What sticks",
        [
            "Sticky memories give room to what was looked at. The picture shows, for one stream "
            "and the first layer, how much attention every part of the signal had received when "
            f"the next segment was written. Even attention would be {even:.3f} everywhere; the "
            f"most that one part got is {most:.3f}.",
            Figure(
                "Sticky attention over time",
                heatmap(grouped, writes, places, "write", "place in the signal", "share"),
                "Columns: writes, one per segment. Rows: parts of the signal, the newest at the "
                "top. Colour: share of the attention since the last write.",
                [
                    {"write": int(write), "place": float(place), "share": float(grouped[i, j])}
                    for i, place in enumerate(places)
                    for j, write in enumerate(writes)
                ],
            ),
        ],
    )
