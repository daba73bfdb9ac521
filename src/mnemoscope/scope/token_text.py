"""A text as a model reads it: token ids, their names, and what should be said at each of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mnemoscope.core.errors import UserError
from mnemoscope.data.batch import NO_QUESTION
from mnemoscope.data.vocabulary import Merges, Vocabulary
from mnemoscope.scope.episodes import FILLER, HIDDEN, Phrase, TaskWords

# A word in brackets is hidden from the model, and asked for.
BRACKETS = re.compile(r"\[([^\[\]]+)\]")
BRACKETED = "Words in [brackets] are hidden from the model, and asked for."


@dataclass(frozen=True)
class TokenText:
    """Tokens in the order in which they are read.

    names    how the page writes them
    targets  what should be said after each, `NO_QUESTION` where nothing is asked or known
    phrases  the same in words, where the task has words
    edges    where segments begin and end, where that is not for a reader to choose
    """

    tokens: list[int]
    names: list[str]
    targets: list[int]
    phrases: list[Phrase] = field(default_factory=list)
    edges: tuple[int, ...] = ()


def following(tokens: Sequence[int]) -> list[int]:
    """What a language model should say after each token: the next one."""
    return [*tokens[1:], NO_QUESTION]


def in_words(words: TaskWords, text: str, hidden: int | None = None) -> TokenText:
    """An episode written by the names of its tokens, or by their numbers.

    ``hidden`` is the id that hides a token in brackets; None where tokens cannot be hidden.
    """
    ids = {name: number for number, name in enumerate(words.tokens)}
    if FILLER in ids:
        ids.setdefault(".", ids[FILLER])  # which every keyboard has
    tokens, targets = [], []
    for word in text.replace(",", " ").split():
        bare = word[1:-1] if hidden is not None and BRACKETS.fullmatch(word) else word
        token = ids.get(bare)
        if token is None and bare.isdecimal() and len(bare) < 10:
            token = int(bare) if int(bare) < len(words.tokens) else None
        if token is None:
            raise UserError(f"{word[:20]!r} is no token: {token_hint(words)}")
        targets.append(NO_QUESTION if bare == word else token)
        tokens.append(token if bare == word or hidden is None else hidden)
    names = [words.tokens[token] for token in tokens]
    phrases = words.narrate(tokens, targets)
    for phrase in phrases:
        if phrase.answer is not None:
            targets[phrase.end - 1] = phrase.answer
    return TokenText(tokens, names, targets, phrases)


def token_hint(words: TaskWords) -> str:
    """What can be typed, in a sentence."""
    names, last = words.tokens, len(words.tokens) - 1
    if names == tuple(map(str, range(len(names)))):
        return f"write numbers from 0 to {last}, separated by spaces"
    shown = names if len(names) <= 12 else (*names[:6], "…", *names[-6:])
    return f"write {' '.join(shown)}, or numbers from 0 to {last}, separated by spaces"


def numbers(count: int) -> TaskWords:
    """The words of a task that has none: tokens are numbers."""
    names = tuple(map(str, range(count)))
    return TaskWords(names, names, lambda tokens, asked: [])


def hidden_phrase(at: int, answer: int) -> Phrase:
    """A token that the model has to fill in."""
    return Phrase(at, at + 1, "ask", f"hidden token {at + 1}", answer)


def masked(
    vocabulary: Vocabulary, text: str, hidden: int, end: int | None, show: Callable[[int], str]
) -> TokenText:
    """A text of which words in brackets are hidden from the model; ``end`` closes a sentence."""
    tokens: list[int] = []
    targets: list[int] = []
    phrases: list[Phrase] = []
    pieces = BRACKETS.split(f" {text}" if end is not None else text)
    for number, piece in enumerate(pieces):
        asked = number % 2 == 1
        if isinstance(vocabulary, Merges):
            # The space before a word is a part of its first token.
            before = pieces[number - 1] if asked else ""
            piece = f" {piece}" if before.endswith(" ") else piece
            piece = piece if asked or number + 1 == len(pieces) else piece.rstrip(" ")
        ids: list[int] = vocabulary.encode(piece).tolist() if piece else []
        first = len(tokens)
        tokens += [hidden] * len(ids) if asked else ids
        targets += ids if asked else [NO_QUESTION] * len(ids)
        if asked:
            phrases += [hidden_phrase(at, one) for at, one in enumerate(ids, start=first)]
    if end is not None:
        tokens.append(end)
        targets.append(NO_QUESTION)
    names = [HIDDEN if token == hidden else show(token) for token in tokens]
    return TokenText(tokens, names, targets, phrases, (0, len(tokens)))
