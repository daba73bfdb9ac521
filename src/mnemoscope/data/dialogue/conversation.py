"""A conversation and the document it is about, as plain data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mnemoscope.core.errors import UserError, first_line, shown
from mnemoscope.data.batch import Split
from mnemoscope.data.packed import read_unpacked


@dataclass(frozen=True)
class Turn:
    """What one speaker says at once.

    section      which section of the document it was said about, None when nobody knows
    reply        whether it is learnt and scored
    scored_from  the character from which on a reply is scored; what comes before is given
    answer_at    the character of that section where the answer stands, None when nobody knows
    """

    speaker: str
    text: str
    section: int | None = None
    reply: bool = True
    scored_from: int = 0
    answer_at: int | None = None


@dataclass(frozen=True)
class Document:
    """A text in sections."""

    name: str
    sections: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse a document, or a section of it, that says nothing."""
        if not any(section.strip() for section in self.sections):
            raise UserError(f"the document {shown(self.name)} is empty: give it a section of text")
        for number, section in enumerate(self.sections):
            if not section.strip():
                raise UserError(
                    f"section {number} of the document {shown(self.name)} is empty: leave it out "
                    "or give it text"
                )

    @property
    def text(self) -> str:
        """All sections, a blank line between them."""
        return "\n\n".join(self.sections)


@dataclass(frozen=True)
class Conversation:
    """Turns about a document.

    speakers  all who may speak; a turn of anybody else is an error
    rating    how good it was found, higher is better; None when nobody has judged
    readers   the speakers who had the document before them; empty when nobody knows
    part      the part that its corpus puts it in, None when the corpus names none
    """

    name: str
    document: Document
    turns: tuple[Turn, ...]
    speakers: tuple[str, ...]
    rating: int | None = None
    readers: tuple[str, ...] = ()
    part: Split | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be read as a conversation, in one line."""
        where = f"the conversation {shown(self.name)}"
        if not self.turns:
            raise UserError(f"{where} has no turns: give it one or leave it out")
        if not any(turn.reply for turn in self.turns):
            raise UserError(f"{where} has no turn that is a reply: nothing in it is scored")
        for name in (*self.readers, *(turn.speaker for turn in self.turns)):
            if name not in self.speakers:
                raise UserError(
                    f"{where} has an unknown speaker {shown(name)}; its speakers: "
                    f"{', '.join(self.speakers)}"
                )
        sections = len(self.document.sections)
        for number, turn in enumerate(self.turns):
            if not turn.text.strip():
                raise UserError(f"turn {number} of {where} is empty: leave it out")
            if turn.section is not None and not 0 <= turn.section < sections:
                raise UserError(
                    f"turn {number} of {where} is about section {turn.section}, but the document "
                    f"{shown(self.document.name)} has sections 0 to {sections - 1}"
                )

    @property
    def said(self) -> tuple[tuple[str, str], ...]:
        """Who said what: equal for a conversation that a corpus holds twice."""
        return tuple((turn.speaker, turn.text) for turn in self.turns)


def another_document(conversations: Sequence[Conversation]) -> list[Document]:
    """For each conversation a document that it is not about: the control that must not help.

    It is that of the next conversation, cyclically, whose document shares no section with its own;
    or, where all share some, of the next whose document has another name.
    """
    documents = [one.document for one in conversations]
    sections = [frozenset(one.sections) for one in documents]
    others = []
    for place, own in enumerate(documents):
        order = [*range(place + 1, len(documents)), *range(place)]
        apart = (i for i in order if not sections[i] & sections[place])
        renamed = (i for i in order if documents[i].name != own.name)
        found = next(apart, None)
        found = next(renamed, None) if found is None else found
        if found is None:
            raise UserError(
                f"all conversations are about {shown(own.name)}: to swap documents, give "
                "conversations about at least two"
            )
        others.append(documents[found])
    return others


def read_json(path: Path) -> Any:
    """What a JSON file says, gzip or not, or where it is broken, in one line."""
    try:
        return json.loads(read_unpacked(path).decode("utf-8"))
    # ValueError covers broken JSON and what is no UTF-8, RecursionError brackets without end.
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not JSON: {first_line(error)}") from error
