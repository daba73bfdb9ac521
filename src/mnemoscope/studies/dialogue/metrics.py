"""How like two replies are, as the field counts it: F1, ROUGE-1 and -L, METEOR, BLEU.

BLEU is sacreBLEU's. The others are a few lines each, by their definitions: the libraries that have
them bring downloads of their own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from mnemoscope.studies.dialogue.result import Replies

_ARTICLES = {"a", "an", "the"}
_WORD = re.compile(r"\w+")


def split_words(text: str) -> list[str]:
    """Lower-case words without punctuation."""
    return _WORD.findall(text.lower())


def f1(said: str, meant: str) -> float:
    """Harmonic mean of precision and recall over words, articles left out (Rajpurkar 2016)."""
    ours, theirs = ([w for w in split_words(text) if w not in _ARTICLES] for text in (said, meant))
    return _harmonic(_common(ours, theirs), len(ours), len(theirs))


def rouge_1(said: str, meant: str) -> float:
    """The same over all words (Lin 2004)."""
    ours, theirs = split_words(said), split_words(meant)
    return _harmonic(_common(ours, theirs), len(ours), len(theirs))


def rouge_l(said: str, meant: str) -> float:
    """The same over the longest common subsequence (Lin 2004)."""
    ours, theirs = split_words(said), split_words(meant)
    row = [0] * (len(theirs) + 1)
    for word in ours:
        before = row
        row = [0]
        for place, other in enumerate(theirs):
            row.append(before[place] + 1 if word == other else max(before[place + 1], row[place]))
    return _harmonic(row[-1], len(ours), len(theirs))


def meteor(said: str, meant: str) -> float:
    """METEOR with exact matches alone, no stems and synonyms (Banerjee 2005).

    Words are matched from left to right, each with the next of its kind; the fewer pieces the
    matches form, the smaller the penalty.
    """
    ours, theirs = split_words(said), split_words(meant)
    places: dict[str, list[int]] = {}
    for place, word in enumerate(theirs):
        places.setdefault(word, []).append(place)
    matched = [(at, places[w].pop(0)) for at, w in enumerate(ours) if places.get(w)]
    if not matched:
        return 0.0
    precision, recall = len(matched) / len(ours), len(matched) / len(theirs)
    mean = 10 * precision * recall / (recall + 9 * precision)
    after = {(at + 1, place + 1) for at, place in matched}
    pieces = sum(match not in after for match in matched)
    return mean * (1 - 0.5 * (pieces / len(matched)) ** 3)


def compare(how: str, said: Sequence[str], meant: Sequence[str]) -> Replies:
    """Score all replies: means, and BLEU of the whole."""
    from sacrebleu.metrics.bleu import BLEU

    def mean(score: Callable[[str, str], float]) -> float:
        return float(np.mean([score(*pair) for pair in zip(said, meant, strict=True)]))

    bleu = BLEU(tokenize="13a").corpus_score(list(said), [list(meant)])
    return Replies(
        how, len(said), mean(f1), mean(rouge_1), mean(rouge_l), mean(meteor), float(bleu.score)
    )


def _common(ours: Sequence[str], theirs: Sequence[str]) -> int:
    return (Counter(ours) & Counter(theirs)).total()


def _harmonic(common: int, ours: int, theirs: int) -> float:
    return 2 * common / (ours + theirs) if common else 0.0
