"""Parts of speech of English tokens, by a list of closed classes written for this study.

Words that can be in several classes are in the one that they are in most often: "that" is a
conjunction, "her" a pronoun. What is in no list is of an open class: noun, verb, adjective, adverb.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

CLOSED = {
    "determiner": "a an the this these those every each some any no another either neither all "
    "both half many much few several such what which whose",
    "pronoun": "i you he she it we they me him her us them my your his its our their mine yours "
    "hers ours theirs myself yourself himself herself itself ourselves yourselves themselves who "
    "whom someone somebody something anyone anybody anything everyone everybody everything nobody "
    "nothing none one oneself",
    "preposition": "of in to for with on at from by about into over after under between through "
    "during before without against within among across behind beyond toward towards upon off out "
    "up down near around along since until till except per via above below beside besides inside "
    "outside despite like than as",
    "conjunction": "and or but nor so yet if because although though while whereas unless whether "
    "that when where why how once lest",
    "auxiliary": "am is are was were be been being do does did have has had having can could will "
    "would shall should may might must ought not don doesn didn isn aren wasn weren hasn haven "
    "hadn couldn wouldn shouldn mustn won 's 're 've 'd 'll 'm 't",
}
NUMBERS = (
    "zero two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety "
    "hundred thousand million billion first second third"
)
OPEN = "open class"
CLASSES = (*CLOSED, "number", "punctuation", OPEN)
_CLASS = {word: name for name, words in CLOSED.items() for word in words.split()}
_CLASS |= dict.fromkeys(NUMBERS.split(), "number")


def part_of_speech(word: str) -> str:
    """The class of a word that stands alone; "" of one that is nothing but space."""
    bare = word.strip().lower().replace("’", "'")
    if not bare:
        return ""
    if bare in _CLASS:
        return _CLASS[bare]
    if any(letter.isdigit() for letter in bare):
        return "number"
    if all(unicodedata.category(letter)[0] in "PS" for letter in bare):
        return "punctuation"
    return OPEN


def tags_of(ids: Sequence[int], spell: Callable[[int], str]) -> list[str]:
    """The class of every token of a sentence; each piece of a word has that of the word.

    ``spell`` gives the text of a token: a space in front begins a word, as does punctuation. An
    apostrophe begins what follows it, as in "don't". What stands for no text, such as the end of a
    sentence, is spelled "" and has no class.
    """
    pieces = [spell(int(one)) for one in ids]
    words: list[list[int]] = []
    for at, piece in enumerate(pieces):
        if not piece.strip():
            continue
        before = pieces[at - 1] if at else ""
        goes_on = bool(before.strip()) and piece[0].isalnum() and before[-1] in "'’"
        goes_on = goes_on or (piece[0].isalnum() and before[-1:].isalnum())
        if not goes_on:
            words.append([])
        words[-1].append(at)
    tags = [""] * len(pieces)
    for word in words:
        name = part_of_speech("".join(pieces[at] for at in word))
        for at in word:
            tags[at] = name
    return tags
