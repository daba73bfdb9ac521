"""A made-up corpus: documents full of facts, conversations that ask for some of them.

    document   § babo likes salt . § befa likes tea .
    turns      1> babo ? ∎ 2> babo salt ∎

A reply begins with the name, which is given: what is asked for is the word after it.
Every fact is about another name, and every value is as likely as any other: who does not remember
the document is right in one of ``values`` cases. With ``joined`` a fact is one word, babo-salt: to
bind a name to its value takes no wit, so what is left is memory.
"""

from __future__ import annotations

from itertools import product
from typing import Self

import numpy as np
from pydantic import Field, model_validator

from mnemoscope.core.config import Config
from mnemoscope.data.dialogue.conversation import Conversation, Document, Turn

ASKER, TELLER = "asker", "teller"
# fmt: off
_VALUES = (
    "tea", "salt", "rain", "figs", "snow", "silk", "bread", "plums",
    "lamps", "goats", "pearls", "rice", "honey", "drums", "kites", "moss",
    "wool", "dates", "ships", "bells", "corn", "masks", "ferns", "cards",
    "olives", "quartz", "thyme", "wine", "ropes", "boots", "milk", "maps",
)
# fmt: on
_FACT, _JOINED = "{} likes {} .", "{}-{}"
# All sentences have four tokens, so that fillers only move facts apart.
_FILLERS = ("then it rained .", "the day passed .", "it was noon .", "nobody said much .")
_SMALL_TALK = ("how are you", "i am well", "it was noon", "the day passed")
_SENTENCE = 4
# Tokens of a turn of small talk, of a question and of an answer, with marks of speaker and end.
_TALK, _QUESTION, _ANSWER = 5, 4, 4
_SYLLABLES = ["".join(pair) for pair in product("bdfghklmnprstvz", "aeiou")]
MOST_NAMES = len(_SYLLABLES) ** 2


class MadeUpOptions(Config):
    """How long the made-up documents are, how much they say, and what is asked."""

    sections: int = Field(4, ge=1, le=1000, description="made up: sections of a document")
    facts: int = Field(4, ge=1, le=5000, description="made up: facts in a section")
    filler: int = Field(
        0, ge=0, le=1000, description="made up: sentences without a fact after each fact"
    )
    small_talk: int = Field(
        0, ge=0, le=10_000, description="made up: turns about nothing before the first question"
    )
    asked: int = Field(4, ge=1, le=5000, description="made up: facts that are asked for")
    asked_sections: tuple[int, ...] | None = Field(
        None, description="made up: sections, from 0, asked about in turn; none = all"
    )
    ages: tuple[int, ...] | None = Field(
        None, description="made up: ages that the questions take in turn, as near as facts stand"
    )
    names: int = Field(64, ge=1, le=MOST_NAMES, description="made up: names that facts are about")
    values: int = Field(8, ge=2, le=len(_VALUES), description="made up: different answers")
    joined: bool = Field(False, description="made up: write a fact as one word")

    @model_validator(mode="after")
    def _enough(self) -> Self:
        if self.names < self.sections * self.facts:
            raise ValueError(
                f"names={self.names} is too few for {self.sections} sections of {self.facts} "
                "facts, each about another name; raise names"
            )
        if self.ages is not None and (not self.ages or min(self.ages) < 1):
            raise ValueError(f"ages={self.ages} must name at least one age, each 1 or more")
        if self.ages is not None and self.asked_sections is not None:
            raise ValueError("choose what is asked by ages or by asked_sections, not by both")
        asked = self.asked_sections
        if asked is not None and not (asked and min(asked) >= 0 and max(asked) < self.sections):
            raise ValueError(
                f"asked_sections={asked} must name at least one of the sections 0 to "
                f"{self.sections - 1}"
            )
        most = max(np.bincount(self._sections_in_turn())) if self.ages is None else 0
        if self.asked > self.sections * self.facts or most > self.facts:
            raise ValueError(
                f"asked={self.asked} is more than there are facts to ask for, each once; lower "
                "asked or raise facts"
            )
        return self

    def _sections_in_turn(self) -> list[int]:
        """The section of every question, in the order of the sections given."""
        order = self.asked_sections or tuple(range(self.sections))
        return [order[i % len(order)] for i in range(self.asked)]

    @property
    def made_up_lexicon(self) -> tuple[str, ...]:
        """All words of the corpus; the values come first, then the names."""
        values, names = _VALUES[: self.values], [_name(number) for number in range(self.names)]
        rest = dict.fromkeys(" ".join((*_FILLERS, *_SMALL_TALK, "likes . ?")).split())
        facts = [_JOINED.format(*pair) for pair in product(names, values)] if self.joined else []
        return (*values, *names, *rest, *facts)

    def make_up(self, count: int, rng: np.random.Generator) -> list[Conversation]:
        """Draw conversations, each about a document of its own."""
        return [self._conversation(number, rng) for number in range(count)]

    def _conversation(self, number: int, rng: np.random.Generator) -> Conversation:
        total = self.sections * self.facts
        about = rng.permutation(self.names)[:total]
        held = rng.integers(self.values, size=total)
        sections, answers_at = [], []
        for section in range(self.sections):
            text = ""
            for fact in range(section * self.facts, (section + 1) * self.facts):
                value = _VALUES[held[fact]]
                sentence = (_JOINED if self.joined else _FACT).format(_name(about[fact]), value)
                answers_at.append(len(text) + sentence.rindex(value))
                fillers = rng.integers(len(_FILLERS), size=self.filler)
                text += " ".join((sentence, *(_FILLERS[i] for i in fillers), ""))
            sections.append(text.rstrip())
        turns = [
            Turn((ASKER, TELLER)[i % 2], _SMALL_TALK[rng.integers(len(_SMALL_TALK))], reply=False)
            for i in range(self.small_talk)
        ]
        for fact in self._asked_facts(rng):
            section, name = fact // self.facts, _name(about[fact])
            turns.append(Turn(ASKER, f"{name} ?", section, reply=False))
            reply = Turn(
                TELLER,
                f"{name} {_VALUES[held[fact]]}",
                section,
                scored_from=len(name) + 1,
                answer_at=answers_at[fact],
            )
            turns.append(reply)
        name = f"made-up {number}"
        document = Document(name, tuple(sections))
        return Conversation(name, document, tuple(turns), (ASKER, TELLER), readers=(TELLER,))

    def _asked_facts(self, rng: np.random.Generator) -> list[int]:
        """Which facts are asked for, none of them twice."""
        if self.ages is not None:
            return self._facts_at(self.ages)
        found = []
        left = [rng.permutation(self.facts).tolist() for _ in range(self.sections)]
        for section in rng.permutation(self._sections_in_turn()):
            found.append(int(section) * self.facts + left[section].pop())
        return found

    def _facts_at(self, ages: tuple[int, ...]) -> list[int]:
        """For each question the fact, not asked yet, whose age comes nearest to the one wished."""
        value = 0 if self.joined else 2
        stands = {
            fact: fact // self.facts * self._section + 1 + fact % self.facts * self._apart + value
            for fact in range(self.sections * self.facts)
        }
        found = []
        asked_at = self.sections * self._section + self.small_talk * _TALK + _QUESTION
        for number in range(self.asked):
            wished = asked_at - ages[number % len(ages)]
            nearest = min(stands, key=lambda fact: (abs(stands[fact] - wished), fact))
            del stands[nearest]
            found.append(nearest)
            asked_at += _QUESTION + _ANSWER
        return found

    @property
    def _apart(self) -> int:
        """Tokens from one fact of a section to the next."""
        return (1 if self.joined else _SENTENCE) + _SENTENCE * self.filler

    @property
    def _section(self) -> int:
        """Tokens of a section, its mark included."""
        return 1 + self.facts * self._apart

    @property
    def made_up_length(self) -> int:
        """Tokens of every conversation with its document, marks included."""
        return self.sections * self._section + self.made_up_turns_length

    @property
    def made_up_turns_length(self) -> int:
        """Tokens of the turns of every conversation."""
        return self.small_talk * _TALK + self.asked * (_QUESTION + _ANSWER)


def _name(number: int) -> str:
    """A name of two syllables, another one for every number."""
    second, first = divmod(int(number), len(_SYLLABLES))
    return _SYLLABLES[first] + _SYLLABLES[(second + 7 * first + 3) % len(_SYLLABLES)]
