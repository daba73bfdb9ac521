"""What the study `caches` lets models read and then asks: repeats, pairs and facts.

An episode is a context, after which the state is all there is, and a question about something
that stands ``age`` tokens before its end. Every answer is drawn uniformly from V candidates, so
that without the context nothing is known of it: log₂ V − cross-entropy is at most what the state
tells. No answer is asked for twice.

Shapes: E episodes, T tokens of a context, C of a question, A answers of it, V candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mnemoscope.core.arrays import Ints
from mnemoscope.core.errors import UserError
from mnemoscope.core.seeds import derive

# Tokens that a repeat begins with before it is asked how it goes on, and how many are asked.
CUE, ASKED = 8, 4
# Pairs written together, of which the last is asked.
BLOCK = 5

NAMES = (
    "Anna Ben Clara David Emma Frank Grace Henry Jack Kate Leo Maria Nina Oscar Paul Rosa Sam Tom "
    "Victor Adam Alice Bob Carl Diana Eric George Helen Ivan Julia Karl Laura Mark Peter Rachel "
    "Simon Walter Amy Brian Dan Ellen Fred Hugo Ian Jane Kevin Lisa Mike Nancy Olivia Patrick"
)
WORDS = {
    "animal": "dog cat horse cow pig sheep goat duck mouse rabbit fox wolf",
    "room": "kitchen garden garage office bedroom library attic basement barn school church hotel",
    "name": "Anna Ben Clara David Emma Frank Grace Henry Jack Kate Maria Oscar",
    "color": "red blue green yellow black white brown pink gray purple orange gold",
    "city": "Paris London Berlin Rome Madrid Vienna Dublin Tokyo Boston Chicago Cairo Moscow",
    "number": "two three four five six seven eight nine ten eleven twelve twenty",
    "food": "bread rice cheese soup cake meat milk fruit honey butter salad pasta",
    "thing": "hammer knife rope lamp box key clock chair table mirror bottle basket",
}
FACTS = {
    "The secret password is": "animal",
    "The old box is hidden in the": "room",
    "The name of the captain is": "name",
    "The color of the front door is": "color",
    "The night train goes to": "city",
    "The number of the winning ticket is": "number",
    "The favorite food of the teacher is": "food",
    "The gift for the king is a": "thing",
}


@dataclass(frozen=True)
class Question:
    """Asked of every episode: tokens (E, C) to read, of which the last A predict the answers.

    answers     (E, A), which of the candidates is right
    candidates  (E, V), token ids
    """

    age: int
    tokens: Ints
    answers: Ints
    candidates: Ints


@dataclass(frozen=True)
class Episodes:
    """Contexts (E, T) and what is asked after them."""

    context: Ints
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class Language:
    """The tokens of a model: how it spells, ids of no special meaning, and a text to read."""

    encode: Callable[[str], list[int]]
    ids: Ints
    text: Ints

    def word(self, word: str) -> int:
        """The one token of a word behind a space."""
        found = self.encode(f" {word}")
        if len(found) != 1:
            raise UserError(
                f"this model spells {word!r} in {len(found)} tokens: leave out the tasks pairs and "
                "facts with --tasks repeats"
            )
        return found[0]


def repeats(ids: Ints, length: int, ages: Sequence[int], rows: int, seed: int) -> Episodes:
    """Random tokens; then a few of them come again, and those that followed are asked."""
    rng = np.random.default_rng(derive(seed, "repeats"))
    drawn = rng.integers(len(ids), size=(rows, length))
    candidates = np.broadcast_to(ids, (rows, len(ids)))
    questions = []
    for age in ages:
        first = length - 1 - age
        again = drawn[:, first - CUE : first + ASKED - 1]
        answers = drawn[:, first : first + ASKED]
        questions.append(Question(age, ids[again], answers, candidates))
    return Episodes(ids[drawn], tuple(questions))


def pairs(ids: Ints, length: int, ages: Sequence[int], rows: int, seed: int) -> Episodes:
    """Keys and values among random tokens; a key comes again, and its value is asked.

    Half of the ids are keys and values, the other half is noise: no key comes twice.
    """
    rng = np.random.default_rng(derive(seed, "pairs"))
    keys, values, noise = np.split(ids, [len(ids) // 4, len(ids) // 2])
    context = noise[rng.integers(len(noise), size=(rows, length))]
    order = rng.permuted(np.tile(keys, (rows, 1)), axis=1)
    right = rng.integers(len(values), size=(rows, len(ages)))
    candidates = np.broadcast_to(values, (rows, len(values)))
    questions = []
    for number, age in enumerate(ages):
        at = length - 1 - age
        context[:, at - 1], context[:, at] = order[:, number], values[right[:, number]]
        asked = order[:, number : number + 1]
        questions.append(Question(age, asked, right[:, number : number + 1], candidates))
    return Episodes(context, tuple(questions))


def named_pairs(
    language: Language, length: int, ages: Sequence[int], rows: int, seed: int
) -> Episodes:
    """Lines such as ``Anna: dog`` in a text, a few together, of which the last is asked."""
    rng = np.random.default_rng(derive(seed, "named pairs"))
    names = np.array([language.word(name) for name in NAMES.split()])
    values = np.array([language.word(word) for word in WORDS["animal"].split()])
    colon, end = language.encode(":"), language.encode("\n")
    context = _texts(language, length, rows, rng)
    order = rng.permuted(np.tile(names, (rows, 1)), axis=1)
    right = rng.integers(len(values), size=(rows, len(ages), BLOCK))
    tokens: list[list[list[int]]] = [[] for _ in ages]
    for row in range(rows):
        for number, age in enumerate(ages):
            block: list[int] = []
            for line in range(BLOCK):
                name = int(order[row, number * BLOCK + line])
                block += [*end, name, *colon, int(values[right[row, number, line]])]
            _place(context[row], [*block, *end], length - age + len(end))
            tokens[number].append([*end, name, *colon])
    candidates = np.broadcast_to(values, (rows, len(values)))
    return Episodes(
        context,
        tuple(
            Question(age, np.array(tokens[number]), right[:, number, -1:], candidates)
            for number, age in enumerate(ages)
        ),
    )


def facts(language: Language, length: int, ages: Sequence[int], rows: int, seed: int) -> Episodes:
    """Made-up sentences in a text, each of another kind; the last word of one is asked."""
    rng = np.random.default_rng(derive(seed, "facts"))
    kinds = [(language.encode(f"\n{said}"), WORDS[of].split()) for said, of in FACTS.items()]
    known = [np.array([language.word(word) for word in words]) for _, words in kinds]
    context = _texts(language, length, rows, rng)
    after = language.encode(".\n")
    # The kind of fact goes round with the row, so that each is asked at each age about as often.
    begin = rng.permutation(len(kinds))[: len(ages)]
    width = max(len(said) for said, _ in kinds)
    questions = []
    for number, age in enumerate(ages):
        right = rng.integers(len(known[0]), size=(rows, 1))
        tokens = np.zeros((rows, width), np.int64)
        candidates = np.zeros((rows, len(known[0])), np.int64)
        for row in range(rows):
            which = (begin[number] + row) % len(kinds)
            said = kinds[which][0]
            candidates[row] = known[which]
            answer = int(known[which][right[row, 0]])
            _place(context[row], [*said, answer, *after], length - age + len(after))
            # Questions of one length: shorter ones begin with more ends of lines.
            tokens[row] = [*said[:1] * (width - len(said)), *said]
        questions.append(Question(age, tokens, right, candidates))
    return Episodes(context, tuple(questions))


def _texts(language: Language, length: int, rows: int, rng: np.random.Generator) -> Ints:
    """Passages (E, T) of the text, each from another place."""
    begin = rng.integers(len(language.text) - length, size=rows)
    found: Ints = language.text[begin[:, None] + np.arange(length)]
    return found


def _place(context: Ints, tokens: Sequence[int], end: int) -> None:
    """Write tokens over a context so that they end before a position."""
    context[end - len(tokens) : end] = tokens
