"""Two languages from one grammar: English-like sentences, and the same in one that turns all round.

The second language puts the verb last, what describes a noun before it (whole relative clauses
too) and the reason before what it explains. Its adjectives agree with their noun in class and
number, and its verb, at the end of the clause, with a subject that may stand far to the left:

    the dogs carry the child that sleeps because a king sleeps
    bi lizuzi vugazi pamo nu laludi vugamapu nu tenaman vododi

    a king sleeps | because | the dogs | sleeps-that the child-object carry

Words of the second language are drawn from a fixed seed, so the pair is the same everywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from mnemoscope.core.seeds import derive
from mnemoscope.data.parallel import Pair

_LEXICON = """
nouns       dog cat king child farmer boat tree fish
adjectives  old small red happy
actions     see/sees follow/follows carry/carries like/likes
states      sleep/sleeps wait/waits
places      near under
links       because while
"""
NOUNS, ADJECTIVES, ACTIONS, STATES, PLACES, LINKS = (
    lines.split()[1:] for lines in re.split(r"\n(?=\w)", _LEXICON.strip())
)

CLASSES = 3
# Beyond, making them takes hours: such a corpus comes from elsewhere.
MOST_SENTENCES, MOST_CLAUSES = 10_000_000, 100


@dataclass(frozen=True)
class _Noun:
    """A noun phrase, and what its verb has to agree with."""

    source: list[str]
    target: list[str]
    plural: bool
    kind: int


def sentences(count: int, clauses: int) -> list[Pair]:
    """Return ``count`` different sentences of one to ``clauses`` clauses."""
    words = _Words()
    rng = np.random.default_rng(derive(0, "grammar", "sentences"))
    found: dict[str, Pair] = {}
    while len(found) < count:
        source, target = words.clause(rng)
        for _ in range(int(rng.integers(clauses))):
            link = int(rng.integers(len(LINKS)))
            more, meant = words.clause(rng)
            # What comes second in one language comes first in the other.
            source = [*source, LINKS[link], *more]
            target = [*meant, words.links[link], *target]
        text = " ".join(source)
        found.setdefault(text, Pair(text, " ".join(target)))
    return list(found.values())


class _Words:
    """The lexicon of the second language, and the rules of both."""

    def __init__(self) -> None:
        rng = np.random.default_rng(derive(0, "grammar", "words"))
        taken: set[str] = set()

        def fresh(syllables: int) -> str:
            while True:
                letters = [
                    str(rng.choice(list("bdfglmnpstvz"))) + str(rng.choice(list("aeiou")))
                    for _ in range(syllables)
                ]
                word = "".join(letters)
                if word not in taken:
                    taken.add(word)
                    return word

        self.nouns = [fresh(2) for _ in NOUNS]
        self.kinds = [int(kind) for kind in rng.integers(CLASSES, size=len(NOUNS))]
        self.adjectives = [fresh(2) for _ in ADJECTIVES]
        self.actions = [fresh(2) for _ in ACTIONS]
        self.states = [fresh(2) for _ in STATES]
        self.places = [fresh(2) for _ in PLACES]
        self.links = [fresh(2) for _ in LINKS]
        self.the, self.a = fresh(1), fresh(1)
        # One ending for each class and number.
        self.endings = [[fresh(1), fresh(1)] for _ in range(CLASSES)]
        self.object, self.relative = "n", fresh(1)

    def clause(self, rng: np.random.Generator) -> tuple[list[str], list[str]]:
        """Subject, verb and perhaps an object: in the other language the verb comes last."""
        subject = self._noun(rng, depth=1)
        said, meant = self._doing(rng, subject, depth=1)
        return [*subject.source, *said], [*subject.target, *meant]

    def _doing(
        self, rng: np.random.Generator, subject: _Noun, depth: int
    ) -> tuple[list[str], list[str]]:
        ending = self.endings[subject.kind][subject.plural]
        if rng.random() < 0.3:
            verb = int(rng.integers(len(STATES)))
            said = STATES[verb].split("/")[not subject.plural]
            return [said], [f"{self.states[verb]}{ending}"]
        verb = int(rng.integers(len(ACTIONS)))
        said = ACTIONS[verb].split("/")[not subject.plural]
        other = self._noun(rng, depth)
        *before, last = other.target
        return [said, *other.source], [
            *before,
            f"{last}{self.object}",
            f"{self.actions[verb]}{ending}",
        ]

    def _noun(self, rng: np.random.Generator, depth: int) -> _Noun:
        which, plural = int(rng.integers(len(NOUNS))), bool(rng.random() < 0.4)
        known, kind = bool(plural or rng.random() < 0.6), self.kinds[which]
        ending = self.endings[kind][plural]
        adjectives = rng.choice(
            len(ADJECTIVES), size=rng.choice(3, p=[0.5, 0.35, 0.15]), replace=False
        )
        noun = NOUNS[which]
        named = (
            noun if not plural else {"child": "children", "fish": "fishes"}.get(noun, noun + "s")
        )
        first = ADJECTIVES[adjectives[0]] if len(adjectives) else named
        article = "the" if known else "an" if first[0] in "aeiou" else "a"
        source = [article, *(ADJECTIVES[one] for one in adjectives), named]
        target = [f"{self.adjectives[one]}{ending}" for one in reversed(adjectives)]
        target += [self.the if known else self.a, f"{self.nouns[which]}{ending}"]
        this = _Noun(source, target, plural, kind)
        if depth and rng.random() < 0.3:
            if rng.random() < 0.5:
                said, meant = self._doing(rng, this, depth - 1)
                source = [*source, "that", *said]
                target = [*meant[:-1], f"{meant[-1]}{self.relative}", *target]
            else:
                place, near = int(rng.integers(len(PLACES))), self._noun(rng, 0)
                source = [*source, PLACES[place], *near.source]
                target = [*near.target, self.places[place], *target]
        return _Noun(source, target, plural, kind)
