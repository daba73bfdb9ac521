"""Which tokens of the replies are counted together: words of the document, sections, ages.

Shapes: C conversations, T tokens of the turns of one, G groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.data.dialogue.conversation import Conversation
from mnemoscope.data.dialogue.script import TURNS, Bools, Written, scored_words
from mnemoscope.studies.dialogue.result import ReadConversation

# Groups of tokens that every corpus has, counted under every control.
KINDS = {
    "all": "all that is said",
    "document": "words of the document",
    "distinctive": "its distinctive words",
    "elsewhere": "other words",
}
# Beyond the first sections a curve has no room.
MOST_SECTIONS = 12


class Groups:
    """The groups of some conversations, which are given as read after their own documents."""

    def __init__(self, written: Sequence[Written]) -> None:
        self.written = written
        self.turns = [one.part == TURNS for one in written]
        replies = [one.reply[turns] for one, turns in zip(written, self.turns, strict=True)]
        found = [
            _groups(one, turns, reply)
            for one, turns, reply in zip(written, self.turns, replies, strict=True)
        ]
        names = {name for groups in found for name in groups if groups[name].any()}
        self.names = (*KINDS, *sorted(names - set(KINDS), key=_order))
        self.masks = [
            np.stack([groups.get(name, np.zeros_like(reply)) for name in self.names])
            for groups, reply in zip(found, replies, strict=True)
        ]  # (G, T) each

    @property
    def counts(self) -> Floats:
        """Tokens of each conversation in each group, (C, G)."""
        return np.array([masks.sum(1) for masks in self.masks], dtype=np.float64)

    def read(self, conversations: Sequence[Conversation]) -> tuple[ReadConversation, ...]:
        """What the result says of each conversation."""
        each = zip(conversations, self.written, self.counts.tolist(), strict=True)
        return tuple(
            ReadConversation(
                one.name,
                read.document_length,
                int((read.part == TURNS).sum()),
                scored_words(one, read),
                one.rating,
                tuple(counts),
            )
            for one, read, counts in each
        )

    def sums(self, values: Iterable[Floats]) -> Floats:
        """Sums over the tokens in each group, (C, G), of values (T,) of every conversation."""
        pairs = zip(self.masks, values, strict=True)
        return np.array([masks @ one for masks, one in pairs], dtype=np.float64)


def _groups(one: Written, turns: Bools, reply: Bools) -> dict[str, Bools]:
    known = one.in_document[turns] & reply
    groups = {
        "all": reply,
        "document": known,
        "distinctive": one.distinctive[turns] & reply,
        "elsewhere": reply & ~one.in_document[turns],
    }
    section, age = one.section[turns], one.age[turns]
    for number in range(MOST_SECTIONS):
        groups[f"section {number + 1}"] = known & (section == number)
    power = np.log2(np.maximum(age, 1)).astype(np.int64)
    for exponent in np.unique(power[known & (age > 0)]).tolist():
        groups[f"age {2**exponent}"] = known & (age > 0) & (power == exponent)
    return groups


def _order(name: str) -> tuple[str, int]:
    kind, number = name.split()
    return kind, int(number)
