"""How good translations are: BLEU and chrF as sacreBLEU counts them, and the loss.

A source with several translations is asked once and compared with all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.core.statistics import Interval
from mnemoscope.data.parallel import Pair
from mnemoscope.data.translation import encode
from mnemoscope.models.evaluating import evaluating
from mnemoscope.models.translator import Translator, pad

# Words in which sacreBLEU can compare without a model or a dictionary of its own.
TOKENIZERS = ("13a", "intl", "char", "zh", "none")
BOOTSTRAPS = 300


@dataclass(frozen=True)
class TranslationScore:
    """What a translator reached on sentences it has not seen.

    bleu        with its 95 % interval, bootstrapped over sentences
    loss        cross-entropy per target token, in nats
    by_length   (mean words, sentences, BLEU) for sources of like length
    texts       the translations
    signatures  how sacreBLEU counted, for papers
    """

    sentences: int
    bleu: Interval
    chrf: float
    loss: float
    by_length: tuple[tuple[float, int, Interval], ...]
    signatures: tuple[str, str]
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Asked:
    """A source sentence and all its translations."""

    source: str
    references: tuple[str, ...]

    @property
    def words(self) -> int:
        """Words of the source, as white space parts them."""
        return len(self.source.split())


def gather(pairs: Sequence[Pair], most: int | None = None) -> list[Asked]:
    """Put translations of one source together; with ``most``, take that many sources evenly."""
    found: dict[str, list[str]] = {}
    for pair in pairs:
        found.setdefault(pair.source, []).append(pair.target)
    asked = [Asked(source, tuple(targets)) for source, targets in found.items()]
    if most is None or most >= len(asked):
        return asked
    # Corpora are often sorted; every so-manieth sentence is of all kinds.
    return [asked[place * len(asked) // most] for place in range(most)]


def score(
    translator: Translator,
    asked: Sequence[Asked],
    *,
    beam: int = 4,
    penalty: float = 1.0,
    ends: Sequence[int] = (),
    tokenize: str = "13a",
    show: Callable[[int, str], None] = lambda done, note: None,
) -> TranslationScore:
    """Translate and compare; ``ends`` are the words at which groups by length end."""
    if not asked:
        raise UserError("there is nothing to translate: give at least one pair")
    said = translator([one.source for one in asked], beam=beam, penalty=penalty, show=show)
    texts = [best[0].text for best in said]
    whole, signature = bleu(texts, asked, tokenize)
    chrf, chrf_signature = _chrf(texts, asked)
    groups = []
    for rows in by_words(asked, ends):
        inside = [asked[row] for row in rows]
        mean = sum(one.words for one in inside) / len(inside)
        groups.append((mean, len(rows), bleu([texts[r] for r in rows], inside, tokenize)[0]))
    return TranslationScore(
        len(asked),
        whole,
        chrf,
        loss(translator, asked),
        tuple(groups),
        (signature, chrf_signature),
        tuple(texts),
    )


def by_words(asked: Sequence[Asked], ends: Sequence[int]) -> list[list[int]]:
    """Group sentences by the length of their source: up to ends[0] words, up to ends[1] …"""
    edges = zip((0, *ends), (*ends, math.inf), strict=True)
    groups = [[i for i, one in enumerate(asked) if low < one.words <= top] for low, top in edges]
    return [group for group in groups if group]


def bleu(
    texts: Sequence[str], asked: Sequence[Asked], tokenize: str = "13a"
) -> tuple[Interval, str]:
    """Corpus BLEU with its interval, and the signature."""
    if tokenize not in TOKENIZERS:
        raise UserError(f"unknown tokenizer {tokenize!r}; {suggestion(tokenize, TOKENIZERS)}")
    metric = _sacrebleu().BLEU(tokenize=tokenize)
    found = metric.corpus_score(list(texts), _streams(asked), n_bootstrap=BOOTSTRAPS)
    # sacreBLEU keeps the half-width under this name only.
    spread = float(found._ci) if len(texts) > 1 else 0.0
    value = float(found.score)
    return Interval(value, value - spread, value + spread), str(metric.get_signature())


def _chrf(texts: Sequence[str], asked: Sequence[Asked]) -> tuple[float, str]:
    metric = _sacrebleu().CHRF()
    found = metric.corpus_score(list(texts), _streams(asked))
    return float(found.score), str(metric.get_signature())


def _sacrebleu() -> Any:
    from sacrebleu import metrics

    return metrics


def _streams(asked: Sequence[Asked]) -> list[list[str | None]]:
    """References as sacreBLEU wants them: stream n holds the n-th of every sentence, if any."""
    most = max(len(one.references) for one in asked)
    return [
        [one.references[n] if n < len(one.references) else None for one in asked]
        for n in range(most)
    ]


@torch.no_grad()
def loss(translator: Translator, asked: Sequence[Asked], batch: int = 64) -> float:
    """Cross-entropy per token of the first reference, the end included, in nats."""
    model, device = translator.model, translator.device
    sources = encode(translator.source, [one.source for one in asked])
    targets = encode(translator.target, [one.references[0] for one in asked])
    order = sorted(range(len(asked)), key=lambda row: len(targets[row]))
    total, tokens = 0.0, 0
    with evaluating(model):
        for first in range(0, len(order), batch):
            rows = order[first : first + batch]
            answers, known = pad([targets[row] for row in rows], device)
            begun = torch.full_like(answers[:, :1], translator.target.size)
            read = torch.cat((begun, answers[:, :-1]), 1)
            state = model.encode(*pad([sources[row] for row in rows], device))
            logits = model(read, state).logits.float()
            total += float(F.cross_entropy(logits[known], answers[known], reduction="sum"))
            tokens += int(known.sum())
    return total / tokens
