"""Sentences of the page of the study `translation`, computed from its result."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mnemoscope.report.claims import Gate
from mnemoscope.studies.sentences import (
    best_rates,
    by_mean,
    leaders,
    leading,
    listed,
    not_compared,
    over_seeds,
    ranked,
)
from mnemoscope.studies.study import label
from mnemoscope.studies.translation.result import ENOUGH_SEEDS, TranslationResult

# BLEU by which bands must be apart for an order to be said.
LEAST = 1.0


def gate(result: TranslationResult, model: str) -> Gate:
    """Whether a model says something of its sentence: more BLEU than for another of like length."""
    margins = [
        float(np.mean([group.bleu - group.wrong for group in one.lengths])) - LEAST
        for one in result.scored(model).values()
    ]
    return Gate(f"BLEU at least {LEAST:g} above that against another sentence", margins)


def ranking(result: TranslationResult, group: int, among: list[str]) -> str:
    """Order models in one group; ``>`` where bands are apart, ``≈`` where they meet."""
    scores = {label(m): result.bleu(m)[:, group] for m in result.present}
    return ranked({name: scores[name] for name in among}, digits=1, least=LEAST)


def fall(result: TranslationResult, model: str) -> str:
    """What became of one model between its best group and the longest sentences."""
    mean, words = result.bleu(model).mean(0), result.words
    top, share, falls = _fallen(result, model)
    if top == len(words) - 1:
        return f"{label(model)} is at its best, {mean[-1]:.1f}, on the longest sentences"
    path = (
        f"{label(model)} goes from {mean[top]:.1f} at {words[top]:.0f} words to {mean[-1]:.1f} at "
        f"{words[-1]:.0f} ({share:.0%} of its best)"
    )
    return f"{path}: it falls" if falls else f"{path}: no fall outside the band"


def _fallen(result: TranslationResult, model: str) -> tuple[int, float, bool]:
    """A model's best group, the share of its BLEU left on the longest, and if bands are apart."""
    values = result.bleu(model)
    mean = values.mean(0)
    top = int(mean.argmax())
    share = float(mean[-1] / mean[top]) if mean[top] > 0 else 0.0
    return top, share, bool(values[:, top].min() - values[:, -1].max() >= LEAST)


def falls(result: TranslationResult) -> str:
    """The same of all models that passed their gate, as one sentence."""
    told = [fall(result, model) for model in result.present if gate(result, model).passed]
    text = "; ".join(told) or "of no model can it be said what length costs it"
    return f"{text[:1].upper()}{text[1:]}."


def bands(result: TranslationResult) -> str:
    """What lines and bands mean."""
    if result.fewest_seeds >= ENOUGH_SEEDS:
        return over_seeds(result.fewest_seeds)
    return "Band: 95 % of resampled test sentences (bootstrap); one training per model."


def rates(result: TranslationResult) -> str:
    """Which learning rate was chosen for whom, and whose lies at an end of what was tried."""
    chosen = {label(name): model.lr for name, model in result.models.items()}
    return (
        "Chosen for every model by the validation loss of its first seed: "
        f"{best_rates(chosen, (one.lr for one in result.trials))}"
    )


def findings(result: TranslationResult) -> list[str]:
    """Who translates the longest sentences best, what length costs each, and what each carries."""
    passed = [model for model in result.present if gate(result, model).passed]
    failed = [label(model) for model in result.present if model not in passed]
    words, wrong = result.words, max(result.wrong(model)[-1] for model in result.present)
    if not passed:
        return [
            f"No model has learnt to translate: none has a BLEU of {LEAST:g} more than against "
            "the references of another sentence, in every training."
        ]
    scores = {label(model): result.bleu(model)[:, -1] for model in passed}
    told = leaders(scores, LEAST, ("scores highest", "score highest"), ".1f", " BLEU")
    last = by_mean(scores)[-1]
    if last not in leading(scores, LEAST):
        told += f", and {last} {scores[last].mean():.1f}"
    sentences = [
        f"On the longest sentences, {words[-1]:.0f} words, {told}; against the references of "
        f"another sentence no model has more than {wrong:.1f}."
    ]
    if len(words) > 1:
        sentences.append(
            f"From the length that suits it best to the longest, {_lost(result, passed)}."
        )
    why = "not every training says more of its sentence than of another"
    carried = ", ".join(f"{label(model)} {_carried(result, model)}" for model in passed)
    bytes_said = f"Bytes carried from the source to the target: {carried}."
    return [*sentences, *(not_compared(failed, why) or [bytes_said])]


def _lost(result: TranslationResult, among: Sequence[str]) -> str:
    told, held = [], []
    for model in among:
        _, share, falls = _fallen(result, model)
        if falls:
            told.append(f"{label(model)} loses {1 - share:.0%} of its BLEU")
        else:
            held.append(label(model))
    if held:
        told.append(f"{listed(held)} {'shows' if len(held) == 1 else 'show'} no clear loss")
    return ", ".join(told)


def _carried(result: TranslationResult, model: str) -> str:
    ends = (group.bytes for group in result.first(model).lengths[:: len(result.words) - 1 or 1])
    return " to ".join(dict.fromkeys(f"{end:,.0f}" for end in ends))
