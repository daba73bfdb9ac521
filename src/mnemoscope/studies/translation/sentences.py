"""Sentences of the page of the study `translation`, computed from its result."""

from __future__ import annotations

from mnemoscope.studies.sentences import edge_of_sweep, ranked
from mnemoscope.studies.study import label
from mnemoscope.studies.translation.result import ENOUGH_SEEDS, TranslationResult


def ranking(result: TranslationResult, group: int) -> str:
    """Order the models in one group; ``>`` where bands are apart, ``≈`` where they meet."""
    return ranked({label(m): result.bleu(m)[:, group] for m in result.present}, digits=1)


def fall(result: TranslationResult, model: str) -> str:
    """What became of one model between its best group and the longest sentences."""
    values, words = result.bleu(model), result.words
    mean = values.mean(0)
    top = int(mean.argmax())
    if top == len(words) - 1:
        return f"{label(model)} is at its best, {mean[-1]:.1f}, on the longest sentences"
    share = mean[-1] / mean[top] if mean[top] > 0 else 0.0
    path = (
        f"{label(model)} goes from {mean[top]:.1f} at {words[top]:.0f} words to {mean[-1]:.1f} at "
        f"{words[-1]:.0f} ({share:.0%} of its best)"
    )
    falls = values[:, top].min() > values[:, -1].max()
    return f"{path}: it falls" if falls else f"{path}: no fall outside the band"


def falls(result: TranslationResult) -> str:
    """The same of all models, as one sentence."""
    text = "; ".join(fall(result, model) for model in result.present)
    return f"{text[:1].upper()}{text[1:]}."


def bands(result: TranslationResult) -> str:
    """What lines and bands mean."""
    if result.fewest_seeds >= ENOUGH_SEEDS:
        return f"Line: mean of {result.fewest_seeds} seeds; band: lowest to highest seed."
    return "Band: 95 % of resampled test sentences (bootstrap); one training per model."


def rates(result: TranslationResult) -> str:
    """Which learning rate was chosen for whom, and whose lies at an end of what was tried."""
    chosen = {label(name): model.lr for name, model in result.models.items()}
    best = ", ".join(f"{name} {rate:g}" for name, rate in chosen.items())
    return (
        f"Chosen for every model by the validation loss of its first seed: {best}. "
        f"{edge_of_sweep(chosen, sorted({one.lr for one in result.trials}))}"
    )
