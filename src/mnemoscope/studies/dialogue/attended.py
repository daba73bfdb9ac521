"""Where attention fell on the document while replies were read: this is where models run.

Shapes: C conversations, D tokens of a document, K scored tokens of replies, B stretches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from mnemoscope.activations.streams.page_stream import PageStream
from mnemoscope.core.arrays import Floats, Ints
from mnemoscope.data.dialogue.script import DOCUMENT, Written
from mnemoscope.studies.dialogue.groups import MOST_SECTIONS
from mnemoscope.studies.dialogue.result import Attended

# Conversations that are watched, and stretches that a document is parted into.
WATCHED, STRETCHES = 16, 16


def attended(
    start: Callable[[], PageStream],
    written: Sequence[Written],
    segment: int,
    before: Sequence[int] = (),
    sinks: int = 0,
) -> Attended:
    """Let a model that attends to tokens read conversations after their documents.

    ``before`` is what it reads before each, ``sinks`` how many first tokens are held whatever they
    say: attention to them is not counted.
    """
    lengths = [one.document_length for one in written]
    longest = max(
        int(one.section[:length].max(initial=0)) + 1
        for one, length in zip(written, lengths, strict=True)
    )
    sections = min(longest, MOST_SECTIONS)
    found = [_watched(start(), one, segment, sections, [*before], sinks) for one in written]
    positions, by_section, about, uniform, by_chance = zip(*found, strict=True)
    return Attended(
        tuple(tuple(np.round(row, 5).tolist()) for row in positions),
        tuple(tuple(np.round(row, 5).tolist()) for row in by_section),
        tuple(about),
        tuple(uniform),
        tuple(by_chance),
    )


def _watched(
    stream: PageStream,
    one: Written,
    segment: int,
    sections: int,
    before: list[int],
    sinks: int,
) -> tuple[Floats, Floats, float, float, float]:
    """Masses of one conversation: by stretch, by section, on the section a turn is about."""
    state, shift = None, len(before)
    length, ids = one.document_length, torch.tensor([*before, *one.ids.tolist()])
    total = len(ids) - 1
    section = one.section[:length]
    asked = np.flatnonzero(one.reply[1:])  # token j is predicted at j - 1
    mass: Floats = np.zeros(length)
    about: list[float] = []
    for first in range(0, total, segment):
        end = min(total, first + segment)
        step = stream.step(ids[first:end], state, first, [])
        state = step.state
        due = asked[(asked + shift >= first) & (asked + shift < end)]
        if not len(due) or not step.parts:
            continue
        shares = np.mean([part.shares for part in step.parts], axis=0)[due + shift - first]
        shares[:, :sinks] = 0
        rows = shares[:, shift : shift + length]
        mass += rows.sum(0)
        of_turn = one.section[due + 1]
        about += (rows * (section == of_turn[:, None])).sum(1)[of_turn >= 0].tolist()
    mass /= max(1, len(asked))
    stretch = np.arange(length) * STRETCHES // max(1, length)
    inside = (one.part[:length] == DOCUMENT) & (section < sections)
    by_stretch: Floats = np.zeros(STRETCHES)
    by_section: Floats = np.zeros(sections)
    np.add.at(by_stretch, stretch, mass)
    np.add.at(by_section, section[inside], mass[inside])
    return (
        by_stretch,
        by_section,
        float(np.mean(about)) if about else float("nan"),
        float(np.mean(length / (asked + 1))) if len(asked) else float("nan"),
        _by_chance(section, one.section[asked + 1], asked),
    )


def _by_chance(section: Ints, of_turn: Ints, asked: Ints) -> float:
    """What attention that is the same everywhere would leave on the section of a turn."""
    known = of_turn >= 0
    if not known.any():
        return float("nan")
    sizes = (section == of_turn[known][:, None]).sum(1)
    return float(np.mean(sizes / (asked[known] + 1)))
