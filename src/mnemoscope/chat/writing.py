"""How documents and turns are written as tokens: as a task does, by a chat template, or plainly."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from mnemoscope.chat.document import ChatDocument
from mnemoscope.core.errors import UserError
from mnemoscope.data.dialogue.script import Script
from mnemoscope.huggingface.loading import check_ids
from mnemoscope.huggingface.quiet import quiet
from mnemoscope.huggingface.tokenizers import beginning

log = logging.getLogger(__name__)

# Of tokens that are no part of the document.
NO_PART = -1
# Tokens, and for each the number of the part of the document it stands in.
Opening = tuple[list[int], list[int]]
# What a user says of a document where a template has turns only, and what is answered.
_HANDED, _TAKEN = "Here is a document.\n\n", "I have read it."


class Writing(Protocol):
    """Documents and turns as tokens.

    how      how turns are written, in words
    longest  most tokens of a reply, None where it ends by itself
    """

    how: str
    longest: int | None

    def opening(self, document: ChatDocument | None) -> Opening:
        """All that is read before the first question."""

    def question(self, text: str, first: bool) -> list[int]:
        """A question up to where the model speaks; before all but the first a reply has ended."""

    def ended(self, ids: Sequence[int]) -> bool:
        """Whether a reply of these tokens is over."""

    def text(self, ids: Sequence[int]) -> str:
        """What a reply says."""


class TaskWriting:
    """As the task `dialogue` writes conversations: marks before sections and turns."""

    how = "with the marks of its task"

    def __init__(self, script: Script, decode: Any, longest: int | None, spaced: bool) -> None:
        self.script, self._decode, self.longest, self._spaced = script, decode, longest, spaced

    def opening(self, document: ChatDocument | None) -> Opening:
        """Sections, a mark before each."""
        ids: list[int] = []
        parts: list[int] = []
        section = NO_PART
        for number, part in enumerate(() if document is None else document.parts):
            mark = self.script.section if part.section != section else ()
            section = part.section
            text = self._encoded(part.text.strip())
            ids += [*mark, *text]
            parts += [NO_PART] * len(mark) + [number] * len(text)
        return ids, parts

    def question(self, text: str, first: bool) -> list[int]:
        """The first speaker asks, the second one speaks; made-up replies begin with the name."""
        asks, tells = self.script.speakers[:2]
        before = () if first else self.script.end
        asked = self._encoded(text)
        given = asked[:1] if self._spaced else []
        return [*before, *asks, *asked, *self.script.end, *tells, *given]

    def ended(self, ids: Sequence[int]) -> bool:
        """At the mark of an end."""
        return bool(ids) and ids[-1] == self.script.end[0]

    def text(self, ids: Sequence[int]) -> str:
        """Without marks."""
        said = [one for one in ids if one < self.script.end[0]]
        return str(self._decode(said)).strip() if said else ""

    def _encoded(self, text: str) -> list[int]:
        if self._spaced:  # where every word and sign stands between spaces
            text = re.sub(r"([?.!,;:])", r" \1 ", text.lower())
        ids: list[int] = self.script.encode(f" {text}")[0].tolist()
        return ids


class TokenizerWriting:
    """With a tokenizer of `transformers`: plainly, as questions and answers a line each."""

    how = "as plain questions and answers"
    longest: int | None = None

    def __init__(self, name: str, tokenizer: Any, known: int, ends: frozenset[int]) -> None:
        self.name, self.tokenizer, self.known, self.ends = name, tokenizer, known, ends
        self.begin = beginning(tokenizer)

    def opening(self, document: ChatDocument | None) -> Opening:
        """The document as it is."""
        ids, parts = self._document(document)
        return [*self.begin, *ids], [NO_PART] * len(self.begin) + parts

    def question(self, text: str, first: bool) -> list[int]:
        """A line each."""
        return self._encoded(f"\nQuestion: {text}\nAnswer:")

    def ended(self, ids: Sequence[int]) -> bool:
        """At a token that ends texts, or with the line."""
        return ids[-1] in self.ends or "\n" in self._decoded(ids).lstrip()

    def text(self, ids: Sequence[int]) -> str:
        """The first line."""
        return self._decoded(ids).lstrip().partition("\n")[0].strip()

    def _decoded(self, ids: Sequence[int]) -> str:
        said = [one for one in ids if one not in self.ends]
        return str(self.tokenizer.decode(said, skip_special_tokens=True)) if said else ""

    def _document(self, document: ChatDocument | None) -> Opening:
        ids: list[int] = []
        parts: list[int] = []
        for number, part in enumerate(() if document is None else document.parts):
            text = self._encoded(part.text)
            ids += text
            parts += [number] * len(text)
        return ids, parts

    def _encoded(self, text: str, marks: bool = False) -> list[int]:
        """Token ids; what a document or a user writes is never one of the template's marks."""
        with quiet():
            ids: list[int] = self.tokenizer(
                text, add_special_tokens=False, split_special_tokens=not marks, verbose=False
            )["input_ids"]
        check_ids(self.name, np.array(ids), self.known)
        return ids


class TemplateWriting(TokenizerWriting):
    """With the chat template of a tokenizer: the document is a first turn, and taken note of."""

    how = "by its chat template"

    def __init__(self, name: str, tokenizer: Any, known: int, ends: frozenset[int]) -> None:
        super().__init__(name, tokenizer, known, ends)
        mark = "⟦{}⟧".format
        said = [mark(number) for number in range(4)]
        turns = [f"{_HANDED}{said[0]}", _TAKEN, *said[1:]]
        self._head, self._middle, _ = self._between(turns, said[:2])
        # After the last user's turn comes what lets the model speak.
        self._before, _, self._next, self._speak = self._between(said[1:], said[1:])

    def opening(self, document: ChatDocument | None) -> Opening:
        """Up to where a user begins to ask."""
        if document is None:
            ids = self._encoded(self._before, marks=True)
            return ids, [NO_PART] * len(ids)
        before, after = (self._encoded(one, marks=True) for one in (self._head, self._middle))
        ids, parts = self._document(document)
        none = [NO_PART]
        return [*before, *ids, *after], none * len(before) + parts + none * len(after)

    def question(self, text: str, first: bool) -> list[int]:
        """A turn of the user, and what lets the model speak."""
        before = [] if first else self._encoded(self._next, marks=True)
        return [*before, *self._encoded(text), *self._encoded(self._speak, marks=True)]

    def ended(self, ids: Sequence[int]) -> bool:
        """At a token that ends turns."""
        return ids[-1] in self.ends

    def text(self, ids: Sequence[int]) -> str:
        """All of it."""
        return self._decoded(ids).strip()

    def _between(self, turns: Sequence[str], marks: Sequence[str]) -> list[str]:
        """What the template writes before, between and after marks in turns of user and model."""
        roles = ("user", "assistant")
        messages = [
            {"role": roles[number % 2], "content": text} for number, text in enumerate(turns)
        ]
        written = self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )
        found = re.split("|".join(map(re.escape, marks)), str(written))
        order = re.findall("|".join(map(re.escape, marks)), str(written))
        if order != [*marks]:
            raise UserError(f"the chat template of {self.name} does not write turns in their order")
        return found


def writing_of(name: str, tokenizer: Any, known: int, ends: frozenset[int]) -> TokenizerWriting:
    """By the chat template of a tokenizer where it has one that can be followed, else plainly."""
    if not getattr(tokenizer, "chat_template", None):
        return TokenizerWriting(name, tokenizer, known, ends)
    try:
        return TemplateWriting(name, tokenizer, known, ends)
    # A template is a program: it can refuse turns in any way.
    except Exception as error:
        log.warning("%s: its chat template cannot be followed (%s)", name, error)
        return TokenizerWriting(name, tokenizer, known, ends)
