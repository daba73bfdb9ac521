"""A conversation as one stream of tokens: the document first, then the turns, and what each is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mnemoscope.core.arrays import Ints
from mnemoscope.core.errors import UserError, shown
from mnemoscope.data.dialogue.conversation import Conversation, Document, Turn
from mnemoscope.data.dialogue.tokens import Encode

Bools = NDArray[np.bool_]

# Values of `Written.part`.
DOCUMENT, TURNS = 0, 1
# Written where there is no section, turn, speaker or known answer.
NONE = -1
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


@dataclass(frozen=True)
class Script:
    """How text and marks are written as tokens.

    encode      text -> its ids (n,), and begin and end of each as characters of the text (n, 2)
    section     what is written before every section
    end         what is written after every turn
    speakers    what is written before a turn, for the first speaker, the second and so on
    scores_end  whether the end of a reply is scored: who talks must know when to stop
    """

    encode: Encode
    section: tuple[int, ...]
    end: tuple[int, ...]
    speakers: tuple[tuple[int, ...], ...]
    scores_end: bool = True


def marked_script(encode: Encode, size: int, speakers: int, scores_end: bool) -> Script:
    """A script whose marks are the ids after those of the text: end, section, then the speakers."""
    marks = tuple((size + 2 + number,) for number in range(speakers))
    return Script(encode, (size + 1,), (size,), marks, scores_end)


@dataclass(frozen=True)
class Written:
    """One conversation as tokens; entry j of every array is about token j, predicted at j - 1.

    ids          (T,) int64  the tokens
    part         (T,) int64  `DOCUMENT` or `TURNS`
    section      (T,) int64  the section it stands in, or that the turn is about
    turn         (T,) int64  the number of its turn
    speaker      (T,) int64  who says it, as an index of ``Conversation.speakers``
    mark         (T,) bool   a mark of section, speaker or end, no text
    reply        (T,) bool   to be learnt and scored
    answer       (T,) int64  the position where it was read in the document, if it is a known answer
    age          (T,) int64  tokens from the answer, or else from the end of the section that its
                             turn is about, to where it is predicted; 0 where neither was read
    in_document  (T,) bool   text of a turn whose word occurs in the conversation's own document,
                             whichever document was read
    distinctive  (T,) bool   and is no common word
    """

    name: str
    ids: Ints
    part: Ints
    section: Ints
    turn: Ints
    speaker: Ints
    mark: Bools
    reply: Bools
    answer: Ints
    age: Ints
    in_document: Bools
    distinctive: Bools

    @property
    def document_length(self) -> int:
        """Tokens of the document that was read, its marks included."""
        return int((self.part == DOCUMENT).sum())

    @property
    def longest_reply(self) -> int:
        """Scored tokens of the longest reply."""
        return int(np.bincount(self.turn[self.reply]).max(initial=0))


def write(
    conversation: Conversation,
    script: Script,
    document: Document | Literal["own"] | None = "own",
    *,
    document_tokens: int | None = None,
    conversation_tokens: int | None = None,
    common: frozenset[str] = frozenset(),
) -> Written:
    """Write a conversation down, after its own document, another one or none.

    A document longer than ``document_tokens`` loses its end. Turns from the first on that goes
    beyond ``conversation_tokens`` are left out. The turns are token for token the same whatever
    the document. ``common`` holds words that are not distinctive of any document.
    """
    if len(conversation.speakers) > len(script.speakers):
        raise UserError(
            f"the conversation {shown(conversation.name)} has {len(conversation.speakers)} "
            f"speakers, but there are marks for {len(script.speakers)}"
        )
    read = conversation.document if document == "own" else document
    lines = _Lines()
    ends, begins = _write_document(lines, script, read, document_tokens)
    known = read is conversation.document
    words = document_words(conversation.document)
    for number, turn in enumerate(fitting(conversation, script, conversation_tokens)):
        speaker = conversation.speakers.index(turn.speaker)
        about = NONE if turn.section is None else turn.section
        add = partial(lines.add, part=TURNS, section=about, turn=number, speaker=speaker)
        answer = NONE
        if known and turn.answer_at is not None and about in begins:
            answer = _token_at(begins[about], turn.answer_at)
            answer = answer if answer < ends.get(about, 0) else NONE
        text = _spaced(turn.text)
        ids, spans = script.encode(text)
        add(script.speakers[speaker], mark=True)
        first = len(lines.ids)
        # The text is written with a space in front, which counts to what comes first.
        given = int(np.searchsorted(spans[:, 1], turn.scored_from + 1, side="right"))
        given = given if turn.scored_from else 0
        add(ids[:given].tolist())
        add(ids[given:].tolist(), reply=turn.reply, answer=answer)
        lines.flags.append((first, *_covered(text, spans, words, common)))
        add(script.end, mark=True, reply=turn.reply and script.scores_end)
    return lines.written(conversation.name, ends)


def fitting(
    conversation: Conversation, script: Script, conversation_tokens: int | None
) -> tuple[Turn, ...]:
    """The turns before the first that goes beyond so many tokens, marks included."""
    if conversation_tokens is None:
        return conversation.turns
    length = 0
    for number, turn in enumerate(conversation.turns):
        mark = script.speakers[conversation.speakers.index(turn.speaker)]
        length += len(mark) + len(script.encode(_spaced(turn.text))[0]) + len(script.end)
        if length > conversation_tokens:
            return conversation.turns[:number]
    return conversation.turns


def scored_words(conversation: Conversation, read: Written) -> int:
    """Words between white space of all that is scored of a conversation."""
    replies = (conversation.turns[number] for number in np.unique(read.turn[read.reply]))
    return sum(len(one.text[one.scored_from :].split()) for one in replies)


@lru_cache(maxsize=256)
def document_words(document: Document) -> frozenset[str]:
    """All words of a document, in small letters."""
    return frozenset(word.casefold() for word in _WORD.findall(document.text))


def common_words(documents: Iterable[Document]) -> frozenset[str]:
    """Words of more than half of all different documents."""
    different = set(documents)
    counts: dict[str, int] = {}
    for document in different:
        for word in document_words(document):
            counts[word] = counts.get(word, 0) + 1
    return frozenset(word for word, count in counts.items() if 2 * count > len(different))


def check_against_window(written: Sequence[Written], window: int) -> tuple[str, ...]:
    """Say where a window of so many tokens makes a comparison of memories mean less.

    Where no document is longer than the window there is nothing to remember: that is an error.
    """
    lengths = [one.document_length for one in written]
    short = [one for one, length in zip(written, lengths, strict=True) if length <= window]
    if len(short) == len(written):
        raise UserError(
            f"no document is longer than the window of {window} tokens (the longest has "
            f"{max(lengths, default=0)}), so none has to be remembered: make the window smaller or "
            "the documents longer"
        )
    said = []
    if short:
        said.append(
            f"{len(short)} of {len(written)} documents are no longer than the window of {window} "
            f"tokens, such as that of {shown(short[0].name)} with {short[0].document_length}"
        )
    long = [one for one in written if one.longest_reply > window]
    if long:
        said.append(
            f"{len(long)} of {len(written)} conversations have a reply longer than the window of "
            f"{window} tokens, such as {shown(long[0].name)} with {long[0].longest_reply}: its end "
            "is predicted without its beginning in sight"
        )
    return tuple(said)


class _Lines:
    """The arrays of `Written` as they grow, as lists."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.columns: dict[str, list[int]] = {
            name: [] for name in ("part", "section", "turn", "speaker", "mark", "reply", "answer")
        }
        # Of the tokens of a turn, from which one on: `in_document` and `distinctive`.
        self.flags: list[tuple[int, Bools, Bools]] = []

    def add(
        self,
        ids: Sequence[int],
        *,
        part: int,
        section: int,
        turn: int = NONE,
        speaker: int = NONE,
        mark: bool = False,
        reply: bool = False,
        answer: int = NONE,
    ) -> None:
        """Add tokens that are alike."""
        self.ids += ids
        given = (part, section, turn, speaker, mark, reply, answer)
        for column, value in zip(self.columns.values(), given, strict=True):
            column += [value] * len(ids)

    def written(self, name: str, ends: dict[int, int]) -> Written:
        """All of it as arrays; ``ends`` says where the sections end that were read."""
        arrays = {key: np.array(column, np.int64) for key, column in self.columns.items()}
        count = len(self.ids)
        in_document, distinctive = np.zeros((2, count), dtype=np.bool_)
        for first, known, rare in self.flags:
            in_document[first : first + len(known)] = known
            distinctive[first : first + len(rare)] = rare
        last = np.array([*(ends.get(i, 0) - 1 for i in range(max(ends, default=-1) + 1)), NONE])
        section, answer = arrays["section"], arrays["answer"]
        # The last entry stands for no section, and for those that were not read.
        ended = last[np.where(section < len(last) - 1, section, NONE)]
        since = np.where(answer != NONE, answer, ended)
        aged = (arrays["part"] == TURNS) & (since != NONE)
        return Written(
            name=name,
            ids=np.array(self.ids, np.int64),
            part=arrays["part"],
            section=section,
            turn=arrays["turn"],
            speaker=arrays["speaker"],
            mark=arrays["mark"].astype(np.bool_),
            reply=arrays["reply"].astype(np.bool_),
            answer=answer,
            age=np.where(aged, np.arange(count) - 1 - since, 0),
            in_document=in_document,
            distinctive=distinctive,
        )


def _write_document(
    lines: _Lines, script: Script, document: Document | None, most: int | None
) -> tuple[dict[int, int], dict[int, tuple[int, Ints]]]:
    """Write the document; return where each section ends, and where it begins with its spans."""
    ends, begins = {}, {}
    for number, section in enumerate(() if document is None else document.sections):
        ids, spans = script.encode(_spaced(section))
        left = None if most is None else max(0, most - len(lines.ids))
        mark, text = script.section[:left], ids.tolist()
        text = text if left is None else text[: max(0, left - len(mark))]
        lines.add(mark, part=DOCUMENT, section=number, mark=True)
        begins[number] = (len(lines.ids), spans)
        lines.add(text, part=DOCUMENT, section=number)
        if text:
            ends[number] = len(lines.ids)
    return ends, begins


def _token_at(section: tuple[int, Ints], character: int) -> int:
    """The position of the token that covers a character of a section."""
    first, spans = section
    # Sections are written with a space in front.
    return first + int(np.searchsorted(spans[:, 1], character + 1, side="right"))


def _spaced(text: str) -> str:
    # With a space in front, a word is the same token at the start as anywhere else.
    return f" {text}"


def _covered(
    text: str, spans: Ints, words: frozenset[str], common: frozenset[str]
) -> tuple[Bools, Bools]:
    """Which tokens are part of one of the words, and which of one that is not common."""
    inside = np.zeros((2, len(text) + 1), dtype=np.int64)
    for match in _WORD.finditer(text):
        word = match.group().casefold()
        if word in words:
            inside[: 1 + (word not in common), match.start() + 1 : match.end() + 1] = 1
    before = np.cumsum(inside, axis=1)
    known, distinctive = before[:, spans[:, 1]] > before[:, spans[:, 0]]
    return known, distinctive
