"""How like two replies are, as the field counts it: F1, ROUGE-1 and -L, METEOR, BLEU.

BLEU is sacreBLEU's, ROUGE that of rouge-score (without stems), METEOR that of NLTK, with stems and
without synonyms: WordNet would have to be downloaded, and scores would depend on who has it. F1 is
a few lines by its definition; no library of that size has it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from mnemoscope.core.errors import UserError
from mnemoscope.studies.dialogue.result import Replies

_ARTICLES = {"a", "an", "the"}
_WORD = re.compile(r"\w+")


def require_scorers() -> None:
    """Say what to install before anything is trained, if replies could not be scored after it."""
    try:
        import nltk  # noqa: F401
        import rouge_score  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"replies are scored by {error.name}: pip install 'mnemoscope[scores]', or let none be "
            "given with spoken=0"
        ) from error


def split_words(text: str) -> list[str]:
    """Lower-case words without punctuation."""
    return _WORD.findall(text.lower())


def f1(said: str, meant: str) -> float:
    """Harmonic mean of precision and recall over words, articles left out (Rajpurkar 2016)."""
    ours, theirs = ([w for w in split_words(text) if w not in _ARTICLES] for text in (said, meant))
    common = (Counter(ours) & Counter(theirs)).total()
    return 2 * common / (len(ours) + len(theirs)) if common else 0.0


def rouge(said: str, meant: str) -> tuple[float, float]:
    """ROUGE-1 and ROUGE-L (Lin 2004), F-measures."""
    from rouge_score.rouge_scorer import RougeScorer

    found = RougeScorer(["rouge1", "rougeL"]).score(meant, said)
    return float(found["rouge1"].fmeasure), float(found["rougeL"].fmeasure)


def meteor(said: str, meant: str) -> float:
    """METEOR (Banerjee 2005) by words and stems."""
    from nltk.translate.meteor_score import single_meteor_score

    return float(single_meteor_score(split_words(meant), split_words(said), wordnet=_NoSynonyms()))


def compare(how: str, said: Sequence[str], meant: Sequence[str]) -> Replies:
    """Score all replies: means, and BLEU of the whole."""
    from sacrebleu.metrics.bleu import BLEU

    pairs = [*zip(said, meant, strict=True)]
    rows = np.array([(f1(*pair), *rouge(*pair), meteor(*pair)) for pair in pairs])
    bleu = BLEU(tokenize="13a").corpus_score(list(said), [list(meant)])
    words, rouge_1, rouge_l, stems = (float(mean) for mean in rows.mean(0))
    return Replies(how, len(said), words, rouge_1, rouge_l, stems, float(bleu.score), stems=True)


class _NoSynonyms:
    """In the place of WordNet: no word has another one of its sense."""

    def synsets(self, word: str) -> list[Any]:
        return []
