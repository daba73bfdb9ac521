"""The part of the page of `dialogue` to read: conversations, coloured by what a memory saved."""

from __future__ import annotations

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.plots.figure import heatmap, plain
from mnemoscope.report.document import Cell, Figure, Section, Table
from mnemoscope.studies.dialogue.contestants import CEILING, FLOOR
from mnemoscope.studies.dialogue.recovered import Recovered
from mnemoscope.studies.dialogue.result import ShownConversation

# Words in a line of a figure, and lines that a screen has room for.
WORDS, LINES = 10, 24
# Nats beyond which a colour is full.
FULL = 2.0


def reading_section(found: Recovered) -> list[Section]:
    """Some conversations with their documents; who recovered most colours them."""
    shown = found.result.shown
    if not shown or FLOOR not in found.trials:
        return []
    model = max(
        found.contestants or [one for one in (CEILING,) if one in found.trials],
        key=lambda one: -float(found.loss(one, "document").mean()),
        default=None,
    )
    if model is None:
        return []
    parts: list[str | Figure | Table] = [
        f"What {found.labels[model]} saved on every token against a model that read no document, "
        "mean of the seeds: blue where it knew better, brown where it knew worse, pale where both "
        "expected the same or nothing was due."
    ]
    for place, one in enumerate(shown):
        floor, own = (_mean(found, name, place) for name in (FLOOR, model))
        saved = floor - own
        sections: list[list[Cell]] = [[n + 1, text] for n, text in enumerate(one.sections)]
        parts += [
            Table(f"Document of {one.name}", ["section", "text"], sections, "Read first."),
            _coloured(one, saved),
        ]
    return [Section("Conversations to read", parts)]


def _mean(found: Recovered, model: str, place: int) -> Floats:
    """Loss of every token of a shown conversation, mean of the seeds."""
    losses: Floats = np.mean([one.shown[place] for one in found.trials[model]], axis=0)
    return losses


def _coloured(one: ShownConversation, saved: Floats) -> Figure:
    """The turns as lines of words, each on the colour of what was saved."""
    texts: list[list[str]] = []
    values: list[list[float]] = []
    names: list[str] = []
    rows: list[dict[str, Cell]] = []
    last = None
    for token, turn, due, nats in zip(one.tokens, one.turns, one.due, saved.tolist(), strict=True):
        if turn != last or len(texts[-1]) == WORDS:
            if len(texts) == LINES:
                break
            texts.append([])
            values.append([])
            names.append(f"{turn + 1} {one.speakers[turn]}" if turn != last else "")
            last = turn
        texts[-1].append(token)
        values[-1].append(nats if due else 0.0)
        rows.append({"turn": turn + 1, "token": token, "nats saved": nats if due else None})
    width = max(map(len, texts))
    grid = np.array([line + [np.nan] * (width - len(line)) for line in values])
    words = [[plain(token) for token in line] + [""] * (width - len(line)) for line in texts]
    drawn = heatmap(
        grid, range(1, width + 1), names, "", "", "nats saved", centre=0, z_range=(-FULL, FULL)
    )
    drawn.update_traces(text=words, texttemplate="%{text}", hovertemplate="%{text}<br>%{z:.3f}")
    drawn.update_xaxes(showticklabels=False)
    caption = f"Turns of {one.name}, token by token" + (
        f"; the first {LINES} lines." if len(rows) < len(one.tokens) else "."
    )
    return Figure(f"What was said in {one.name}", drawn, caption, rows)
