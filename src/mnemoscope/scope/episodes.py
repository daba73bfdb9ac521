"""Tasks of ours in words: a name for every token, and what an episode says and asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from string import ascii_lowercase, ascii_uppercase

import numpy as np

from mnemoscope.data.batch import NO_QUESTION, Task
from mnemoscope.data.copy import Copy
from mnemoscope.data.delayed_answer import DelayedAnswer
from mnemoscope.data.dialogue.task import Dialogue
from mnemoscope.data.images import Images
from mnemoscope.data.recall import Recall
from mnemoscope.data.sorting import Sorting, sort_by_frequency
from mnemoscope.data.spelling import Spelling

FILLER, MARK, SEPARATOR, HIDDEN, END = "·", "?", "|", "▢", "∎"


@dataclass(frozen=True)
class Phrase:
    """A stretch of an episode in words.

    first, end  its tokens
    kind        write, ask or wait
    words       such as "write k3 = v7"
    answer      what should be said at its last token, None when nobody knows or asks
    source      the token at which that answer was read, None when it was not one token
    """

    first: int
    end: int
    kind: str
    words: str
    answer: int | None = None
    source: int | None = None


# What an episode says: (tokens, what is asked at each of them or `NO_QUESTION`) -> its phrases
Narrate = Callable[[Sequence[int], Sequence[int]], list[Phrase]]


@dataclass(frozen=True)
class TaskWords:
    """How a task is written: names of token ids and of outputs, and its episodes in phrases.

    columns  tokens of a row, where tokens are the pixels of an image
    """

    tokens: tuple[str, ...]
    answers: tuple[str, ...]
    narrate: Narrate
    columns: int | None = None


def words_of(task: Task) -> TaskWords | None:
    """The words of a task on symbols; None of one on text, and of one that is not ours."""
    for kind, words in WORDS.items():
        if isinstance(task, kind):
            return words(task)
    return None


def _recall(task: Recall) -> TaskWords:
    keys = [f"k{number}" for number in range(task.keys)]
    values = [f"v{number}" for number in range(task.values)]
    pairs = [f"{key}={value}" for key in keys for value in values] if task.joined else []
    names = (*keys, *values, FILLER, *pairs)
    filler = task.keys + task.values

    def narrate(tokens: Sequence[int], asked: Sequence[int]) -> list[Phrase]:
        found: list[Phrase] = []
        held: dict[int, tuple[int, int]] = {}  # the value of every key, and where it was written
        at = 0
        while at < len(tokens):
            token, end = tokens[at], at + 1
            if token > filler:
                key, value = divmod(token - filler - 1, task.values)
            elif token < task.keys and end < len(tokens) and tokens[end] in task.answers:
                key, value, end = token, tokens[end] - task.keys, end + 1
            else:
                found.append(_recalled(names, task.keys, held, token, at))
                at = end
                continue
            held[key] = task.keys + value, end - 1
            found.append(Phrase(at, end, "write", f"write k{key} = v{value}"))
            at = end
        return _joined_waits(found)

    return TaskWords(names, names, narrate)


def _recalled(
    names: Sequence[str], keys: int, held: dict[int, tuple[int, int]], token: int, at: int
) -> Phrase:
    """What a token says that is no part of a write."""
    if token in held:
        return Phrase(at, at + 1, "ask", f"ask {names[token]}", *held[token])
    if token < keys:
        return Phrase(at, at + 1, "ask", f"ask {names[token]}, never written")
    kind = "wait" if names[token] == FILLER else "write"
    return Phrase(at, at + 1, kind, names[token])


def _copy(task: Copy) -> TaskWords:
    symbols = [f"s{number}" for number in range(task.symbols)]
    several = task.fillers > 1
    fillers = [f"{FILLER}{number}" if several else FILLER for number in range(task.fillers)]
    names, mark = (*symbols, *fillers, MARK), task.symbols + task.fillers

    def narrate(tokens: Sequence[int], asked: Sequence[int]) -> list[Phrase]:
        found: list[Phrase] = []
        shown: list[int] = []  # where symbols stand
        marks = 0
        for at, token in enumerate(tokens):
            if token < task.symbols:
                shown.append(at)
                found.append(Phrase(at, at + 1, "write", f"show {names[token]}"))
            elif token < mark:
                found.append(Phrase(at, at + 1, "wait", FILLER))
            else:
                source = shown[marks] if marks < len(shown) else None
                marks += 1
                answer = None if source is None else tokens[source]
                found.append(Phrase(at, at + 1, "ask", f"repeat symbol {marks}", answer, source))
        return _joined_waits(found)

    return TaskWords(names, names, narrate)


def _sorting(task: Sorting) -> TaskWords:
    by_count = task.variant == "frequency"
    names = (*(_letters(task.symbols) if by_count else map(str, range(task.symbols))), SEPARATOR)

    def narrate(tokens: Sequence[int], asked: Sequence[int]) -> list[Phrase]:
        length = tokens.index(task.symbols) if task.symbols in tokens else len(tokens)
        shown = np.array(tokens[:length], dtype=np.int64)
        found = [Phrase(0, length, "write", f"read {length} symbols")] if length else []
        if by_count:
            answers = sort_by_frequency(shown[None], task.symbols)[0].tolist()
            sources = [None] * len(answers)
        else:
            sources = np.argsort(-shown, kind="stable").tolist()
            answers = shown[sources].tolist()
        rank = "most frequent" if by_count else "largest"
        for place, at in enumerate(range(length, len(tokens))):
            due = (answers[place], sources[place]) if place < len(answers) else (None, None)
            found.append(Phrase(at, at + 1, "ask", f"{rank} no. {place + 1}", *due))
        return found

    return TaskWords(names, names, narrate)


def _delayed_answer(task: DelayedAnswer) -> TaskWords:
    few = task.calls <= len(ascii_uppercase)
    calls = [ascii_uppercase[i] if few else f"C{i}" for i in range(task.calls)]
    answers = [ascii_lowercase[i] if few else f"a{i}" for i in range(task.calls)]
    names, hidden = (*calls, *answers, HIDDEN), 2 * task.calls

    def narrate(tokens: Sequence[int], asked: Sequence[int]) -> list[Phrase]:
        found: list[Phrase] = []
        for at, (token, target) in enumerate(zip(tokens, asked, strict=True)):
            due = None if target == NO_QUESTION else target
            if token != hidden:
                kind = "call" if token < task.calls else "answer"
                found.append(Phrase(at, at + 1, "write", f"{kind} {names[token]}"))
                continue
            call = at - task.back
            source = call if call >= 0 and tokens[call] < task.calls else None
            after = "" if source is None else f", {task.back} after {names[tokens[call]]}"
            found.append(Phrase(at, at + 1, "ask", f"hidden{after}", due, source))
        return found

    return TaskWords(names, names, narrate)


def _spelling(task: Spelling) -> TaskWords:
    names, count = (*task.lexicon, FILLER), len(task.lexicon)
    letters = task.letters
    answers = (*(letters.decode(np.array([one])) for one in range(letters.size)), END)

    def narrate(tokens: Sequence[int], asked: Sequence[int]) -> list[Phrase]:
        found: list[Phrase] = []
        word, begun = "", 0
        for at, token in enumerate(tokens):
            if token < count:
                word, begun = task.lexicon[token], at
            place = at - begun
            if not word or place > len(word):
                found.append(Phrase(at, at + 1, "wait", FILLER))
                continue
            ends = place == len(word)
            due = letters.size if ends else int(letters.encode(word[place])[0])
            said = "end" if ends else f"letter {place + 1}"
            said = f"spell {word}: {said}" if token < count else said
            found.append(Phrase(at, at + 1, "ask", said, due, begun))
        return _joined_waits(found)

    return TaskWords(names, answers, narrate)


def _images(task: Images) -> TaskWords:
    names = (*map(str, range(task.levels)), "start")
    columns = int(np.prod(task.shape[1:]))
    return TaskWords(names, names, lambda tokens, asked: [], columns)


def _dialogue(task: Dialogue) -> TaskWords | None:
    """Made-up conversations; of others the words are those of a vocabulary."""
    if task.source is not None:
        return None
    script = task.script
    names = tuple(task.text_of([token]) for token in range(task.vocab))
    section, end = script.section[0], script.end[0]
    speakers = {mark[0] for mark in script.speakers}
    full_stop = {token for token, name in enumerate(names) if name == "."}
    # Values come first, then the names that facts are about; last, facts that are one word.
    people = range(task.values, task.values + task.names)
    joined = range(end - task.names * task.values, end) if task.joined else range(0)

    def narrate(tokens: Sequence[int], asked: Sequence[int]) -> list[Phrase]:
        found: list[Phrase] = []
        held: dict[int, tuple[int, int]] = {}  # the value of every name, and where it was read
        at = 0
        while at < len(tokens):
            stop = _said_until(tokens, at, {section, *speakers}, {end, *full_stop})
            piece, turn = tokens[at:stop], tokens[at] in speakers
            about = next((token for token in piece if token in people), None)
            answering = [*tokens[stop : stop + 2]]
            if turn and len(answering) == 2 and answering[0] in speakers and answering[1] == about:
                stop += 2  # with the mark of who is to answer, and the name that a reply repeats
                told = "" if about in held else ", never told"
                words = f"ask {names[about]}{told}"
                found.append(Phrase(at, stop, "ask", words, *held.get(about, ())))
            else:
                values = [(token, at + i) for i, token in enumerate(piece) if token < task.values]
                if about is not None and values and not turn:
                    held[about] = values[-1]
                for i, token in enumerate(piece):
                    if token in joined:
                        name, value = divmod(token - joined.start, task.values)
                        held[people[name]] = value, at + i
                found.append(Phrase(at, stop, "write", " ".join(names[one] for one in piece)))
            at = stop
        return found

    return TaskWords(names, names, narrate)


def _said_until(tokens: Sequence[int], at: int, begins: set[int], ends: set[int]) -> int:
    """Where a sentence or turn ends that begins ``at``: after what ends it, or before the next."""
    for stop in range(at + 1, len(tokens)):
        if tokens[stop] in begins or tokens[stop - 1] in ends:
            return stop
    return len(tokens)


WORDS: dict[type[Task], Callable[..., TaskWords | None]] = {
    Dialogue: _dialogue,
    Recall: _recall,
    Copy: _copy,
    Sorting: _sorting,
    DelayedAnswer: _delayed_answer,
    Spelling: _spelling,
    Images: _images,
}


def _letters(count: int) -> list[str]:
    few = count <= len(ascii_lowercase)
    return [ascii_lowercase[number] if few else f"s{number}" for number in range(count)]


def _joined_waits(phrases: list[Phrase]) -> list[Phrase]:
    """Fillers that follow each other make one phrase."""
    found: list[Phrase] = []
    for one in phrases:
        if one.kind == "wait":
            first = found.pop().first if found and found[-1].kind == "wait" else one.first
            tokens = one.end - first
            one = Phrase(first, one.end, "wait", "wait" if tokens == 1 else f"wait {tokens} tokens")
        found.append(one)
    return found
