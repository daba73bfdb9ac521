"""A document in parts that can be pointed at: sections, and groups of lines or sentences."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mnemoscope.core.errors import UserError
from mnemoscope.data.dialogue.plain import BETWEEN_SECTIONS
from mnemoscope.data.documents import read_text

# Parts that are told apart; more would be no answer to where something was read.
MOST_PARTS = 20
_SENTENCE = re.compile(r"\S.*?(?:[.!?](?=\s)|$)\s*", re.DOTALL)


@dataclass(frozen=True)
class DocumentPart:
    """Some lines, or sentences, of a document.

    section  the number of the section it is in, from 0
    """

    label: str
    text: str
    section: int


@dataclass(frozen=True)
class ChatDocument:
    """A document to talk about."""

    name: str
    parts: tuple[DocumentPart, ...]


@dataclass(frozen=True)
class _Unit:
    """A line or a sentence: its number from 1, its section, and its text with what ends it."""

    number: int
    section: int
    text: str


def read_chat_document(path: str | Path) -> ChatDocument:
    """Read a UTF-8 text file, gzip or not."""
    file = Path(path).expanduser()
    return chat_document(file.name, read_text(file))


def chat_document(name: str, text: str) -> ChatDocument:
    """Part a text: a line of three dashes begins a section, a part never reaches beyond one."""
    units, kind = _units(text)
    if not units:
        raise UserError(f"the document {name[:80]} is empty: give it text")
    most = max(1, sum(len(one.text) for one in units) // MOST_PARTS)
    sections = units[-1].section > 0
    groups: list[list[_Unit]] = []
    for one in units:
        begun = bool(groups) and groups[-1][-1].section == one.section
        if begun and sum(len(other.text) for other in groups[-1]) < most:
            groups[-1].append(one)
        else:
            groups.append([one])
    return ChatDocument(name, tuple(_part(group, kind, sections) for group in groups))


def _units(text: str) -> tuple[list[_Unit], str]:
    lines = text.splitlines()
    section = 0
    units: list[_Unit] = []
    for number, line in enumerate(lines, 1):
        if line.strip() == BETWEEN_SECTIONS:
            section += bool(units)
        elif line.strip():
            units.append(_Unit(number, section, f"{line}\n"))
        elif units:  # an empty line belongs to the one before
            units[-1] = _Unit(units[-1].number, units[-1].section, f"{units[-1].text}\n")
    if len(units) > 1:
        return units, "line"
    sentences = _SENTENCE.findall(text.strip()) if units else []
    return [_Unit(number, 0, one) for number, one in enumerate(sentences, 1)], "sentence"


def _part(group: list[_Unit], kind: str, sections: bool) -> DocumentPart:
    first, last = group[0].number, group[-1].number
    label = f"{kind} {first}" if first == last else f"{kind}s {first}–{last}"
    if sections:
        label = f"section {group[0].section + 1}, {label}"
    return DocumentPart(label, "".join(one.text for one in group), group[0].section)
