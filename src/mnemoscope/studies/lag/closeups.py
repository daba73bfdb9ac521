"""Two close-ups for pages: gates that open and close, and the next letter of a word."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mnemoscope.data.copy import Copy
from mnemoscope.lenses.gates.lens import Gates
from mnemoscope.plots.figure import Series, bars
from mnemoscope.report.document import Figure, Section
from mnemoscope.studies.lag.spelling import WORD
from mnemoscope.studies.study import label
from mnemoscope.training.run import Run

# The gate that decides what stays.
KEEPING = {"lstm": "forget", "gru": "update"}


def gates_section(result: dict[str, Any], runs: Path) -> Section:
    """What the gates of LSTM and GRU did in one kind of episode."""
    parts: list[str | Figure] = [
        "One episode seen from inside, at the first layer of the first seed. A forget gate (LSTM) "
        "or an update gate (GRU) near 1 keeps what the unit holds, near 0 replaces it.",
    ]
    for memory, gate in KEEPING.items():
        if memory not in result["models"]:
            continue
        rate = result["models"][memory]["lr"]
        run = Run.open(runs / f"{memory}-lr{rate:g}-seed0")
        task = run.config.task
        assert isinstance(task, Copy)
        tokens = torch.from_numpy(task.at(min(16, task.lag)).batch(0, 32, seed=0).tokens)
        lens = Gates()
        lens.observe(run.model(), tokens)
        seen = lens.result()
        waiting = slice(task.items, -task.items)
        keeping = seen.mean[:, seen.names.index(gate)]
        parts += [
            f"{label(memory)}: the {gate} gate is at {keeping[: task.items].mean():.2f} on average "
            f"while symbols are shown, {keeping[waiting].mean():.2f} during the wait and "
            f"{keeping[-task.items :].mean():.2f} while answering.",
            Figure(
                f"{label(memory)} gates",
                seen.figure(),
                f"All gates of the {label(memory)} over one length of episode (0 to "
                f"{task.items - 1} show symbols, the last {task.items} ask). Line: mean over units "
                "and 32 episodes; band: all but the lowest and highest tenth of them.",
                seen.table(),
            ),
            Figure(
                f"{label(memory)} {gate} gate by unit",
                seen.units(gate, _read_aloud(task, tokens[0].tolist())),
                f"The {gate} gate of every unit in one episode: letters are symbols, dots are "
                "noise, question marks ask.",
                [
                    {"token": t, "unit": unit, gate: float(value)}
                    for t, units in enumerate(seen.example[:, seen.names.index(gate)])
                    for unit, value in enumerate(units)
                ],
            ),
        ]
    return Section("Gates over time", parts)


def _read_aloud(task: Copy, tokens: Sequence[int]) -> list[str]:
    def name(token: int) -> str:
        if token < task.symbols:
            return chr(ord("A") + token)
        return "?" if token == task.vocab - 1 else "·"

    return [name(token) for token in tokens]


def spelling_section(result: dict[str, Any]) -> Section:
    """What each memory expects after the first letters of a word."""
    letters = sorted(set(WORD))
    series: list[Series] = []
    rows: list[dict[str, str | int | float]] = []
    said: list[str] = []
    for memory, chances in result["spelling"].items():
        last = np.array(chances)[:, -1]  # (seeds, letters), having read all but the last letter
        series.append(Series(label(memory), letters, last.mean(0), last.min(0), last.max(0)))
        right = last[:, letters.index(WORD[-1])]
        said.append(f"{label(memory)} {right.mean():.2f}")
        rows += [
            {
                "model": label(memory),
                "seed": seed,
                "read": WORD[: t + 1],
                "next": letter,
                "probability": chance,
            }
            for seed, table in enumerate(chances)
            for t, row in enumerate(table)
            for letter, chance in zip(letters, row, strict=True)
        ]
    opening = (
        f"Tiny models of each kind learnt the word “{WORD}” letter by letter, in few steps. After "
        "“hel” comes l, after “hell” comes o: the letter just read is the same, only memory tells "
        f"them apart. Probability of o after “hell”: {', '.join(said)}."
    )
    return Section(
        "The next letter of a word",
        [
            opening,
            Figure(
                "Next letter after hell",
                bars(series, "next letter", "probability", y_range=(0, 1.03)),
                "What each model expects after “hell”. Whiskers: lowest to highest seed.",
                rows,
            ),
        ],
    )
