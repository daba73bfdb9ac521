"""Everything of the study `translation` that runs models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mnemoscope.data.parallel import read_pairs
from mnemoscope.data.translation import Translation
from mnemoscope.lenses.alignment.lens import Alignment
from mnemoscope.lenses.reach.lens import Reach
from mnemoscope.studies.translation.result import (
    CrossAttention,
    Dependence,
    Example,
    LengthGroup,
    Scored,
)
from mnemoscope.training import scores
from mnemoscope.training.machine import join
from mnemoscope.training.run import Run

# Sentences whose translations are shown as they are.
EXAMPLES = 12


def score(folder: Path, ends: Sequence[int], tested: int, beam: int, tokenize: str) -> Scored:
    """Translate the test part with a trained model; ``ends`` are where groups of lengths end."""
    run = Run.open(folder)
    task = run.config.task
    assert isinstance(task, Translation)
    translator = run.translator()
    translator.model.to(join(run.config.training.device).device)
    asked = scores.gather(task.pairs("test"), tested)
    found = scores.score(translator, asked, beam=beam, ends=ends, tokenize=tokenize)
    lengths = []
    groups = scores.by_words(asked, ends)
    for rows, (words, count, bleu) in zip(groups, found.by_length, strict=True):
        inside = [asked[row] for row in rows]
        texts = [found.texts[row] for row in rows]
        # The control: the same translations, each held against its neighbour's references.
        wrong, _ = scores.bleu([*texts[1:], texts[0]], inside, tokenize)
        sources = [one.source for one in inside[::8]]
        carried = sum(map(translator.carried, sources)) / len(sources)
        lengths.append(LengthGroup(words, count, bleu.value, bleu.spread, wrong.value, carried))
    return Scored(
        bleu=found.bleu.value,
        spread=found.bleu.spread,
        chrf=found.chrf,
        loss=found.loss,
        signatures=found.signatures,
        lengths=tuple(lengths),
        valid_loss=run.valid_loss,
        seconds=run.seconds,
    )


def examples(task: Translation, tested: int, own: str | None) -> tuple[Example, ...]:
    """The user's own sentences, or a few of the test part, short ones first."""
    if own is not None:
        return tuple(Example(one.source, one.target) for one in read_pairs(own))
    asked = sorted(scores.gather(task.pairs("test"), tested), key=lambda one: one.words)
    count = min(EXAMPLES, len(asked))
    # The very longest are few; the last one shown is at nine tenths of all.
    shown = [asked[number * len(asked) * 9 // (10 * count)] for number in range(count)]
    return tuple(Example(one.source, one.references[0]) for one in shown)


def say(folder: Path, shown: Sequence[Example]) -> tuple[str, ...]:
    """What a trained translator makes of the sources."""
    found = Run.open(folder).translator()([example.source for example in shown])
    return tuple(best[0].text for best in found)


def cross_attention(folder: Path, shown: Sequence[Example]) -> CrossAttention | None:
    """Attention of a trained translator to the sources, and its map of the middle example.

    None for a model whose decoder attends to no source.
    """
    translator = Run.open(folder).translator()
    if not any(path.endswith("alignment") for path, _ in translator.model.named_modules()):
        return None
    lens = Alignment()
    for example in [*shown, shown[len(shown) // 2]]:
        lens.observe(translator, example.source, example.reference)
    seen = lens.result()
    return CrossAttention(
        source=seen.source,
        target=seen.target,
        weights=tuple(tuple(row) for row in seen.weights[-1].tolist()),
        sharpness=float(seen.sharpness[-1]),
        even=float(seen.even),
    )


def dependence(folder: Path, shown: Sequence[Example]) -> Dependence:
    """What the outputs of a trained translator depend on, of an example of the shorter ones."""
    example = shown[len(shown) // 3]
    seen = Reach().observe(Run.open(folder).translator(), example.source, example.reference)
    share = tuple(tuple(row) for row in seen.influence.tolist())
    return Dependence(seen.source, seen.read, seen.said, share)
