"""What the study `translation` finds, as data that goes to JSON and back."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.studies.study import Diverged, Sized

Matrix = tuple[tuple[float, ...], ...]

# Fewer seeds than this say nothing about their spread; then sentences are resampled instead.
ENOUGH_SEEDS = 3


@dataclass(frozen=True)
class LengthGroup:
    """Test sentences whose sources are of like length.

    words      mean words of a source
    sentences  how many there are
    bleu       of the translations; ``spread`` is half of its bootstrapped 95 % interval
    wrong      the control: BLEU against the references of another sentence of the group
    bytes      mean state of one sentence
    """

    words: float
    sentences: int
    bleu: float
    spread: float
    wrong: float
    bytes: float


@dataclass(frozen=True)
class Scored:
    """What a trained translator did with the test part.

    loss        cross-entropy per target token, in nats
    signatures  how sacreBLEU counted
    seconds     of training
    said        its translations of the examples, in results of version 0.1
    """

    bleu: float
    spread: float
    chrf: float
    loss: float
    signatures: tuple[str, ...]
    lengths: tuple[LengthGroup, ...]
    valid_loss: float
    seconds: float
    said: tuple[str, ...] = ()


@dataclass(frozen=True)
class Trained:
    """One training: what it was of, the name of its run, and how it ended."""

    model: str
    lr: float
    seed: int
    run: str
    outcome: Scored | Diverged

    @property
    def valid_loss(self) -> float | None:
        """On validation data; None if it diverged."""
        return self.outcome.valid_loss if isinstance(self.outcome, Scored) else None


@dataclass(frozen=True)
class Example:
    """A sentence of the test part and its first reference."""

    source: str
    reference: str


@dataclass(frozen=True)
class CrossAttention:
    """Attention to the source in a decoder's last layer, mean over heads, forced to a reference.

    source, target  tokens of one sentence, as text
    weights         (T, S), each row adds up to one
    sharpness       highest weight of a row, mean over all examples
    even            the same if all source tokens had equal weight
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: Matrix
    sharpness: float
    even: float


@dataclass(frozen=True)
class Dependence:
    """Which tokens the outputs of a decoder depend on, as the gradient says.

    source, read, target  tokens of one sentence: the source, the target as it is read, as predicted
    share                 (T, S + T) share of each token read in the gradient of an output
    """

    source: tuple[str, ...]
    read: tuple[str, ...]
    target: tuple[str, ...]
    share: Matrix


@dataclass(frozen=True)
class TranslationResult:
    """All that the page says and draws.

    pairs             how many there are, by part
    models, trials    in the order in which they were asked for
    examples, said    sentences, short ones first, and what the first seed of a model makes of them
    cross_attention   of the first seed, by model; those without any are missing
    dependence        of the first model whose decoder has self-attention
    overlap           pairs left out since files given for validation or test have their source
    """

    corpus: str | None
    pairs: dict[str, int]
    models: dict[str, Sized]
    trials: tuple[Trained, ...]
    examples: tuple[Example, ...]
    cross_attention: dict[str, CrossAttention]
    dependence: Dependence | None
    overlap: int = 0
    said: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def scored(self, model: str) -> dict[int, Scored]:
        """By seed: the trainings of a model at its chosen learning rate that did not diverge."""
        return {
            one.seed: one.outcome
            for one in self.trials
            if (one.model, one.lr) == (model, self.models[model].lr)
            and isinstance(one.outcome, Scored)
        }

    @property
    def present(self) -> list[str]:
        """Models of which at least one training did not diverge."""
        return [model for model in self.models if self.scored(model)]

    def first(self, model: str) -> Scored:
        """The first seed of a model that is present."""
        return next(iter(self.scored(model).values()))

    @property
    def words(self) -> list[float]:
        """Mean words of the sources, group by group; the same for all models."""
        return [group.words for group in self.first(self.present[0]).lengths]

    @property
    def fewest_seeds(self) -> int:
        """Trainings of the model that has fewest."""
        return min(len(self.scored(model)) for model in self.present)

    def wrong(self, model: str) -> Floats:
        """BLEU against the references of other sentences by group of lengths, mean of seeds."""
        found = [[group.wrong for group in one.lengths] for one in self.scored(model).values()]
        return np.asarray(np.mean(found, 0))

    def bleu(self, model: str) -> Floats:
        """BLEU by group of lengths, (values, groups): mean, lowest and highest make the band.

        Values are seeds, or, of too few of these, the bootstrapped interval and its middle.
        """
        found = [one.lengths for one in self.scored(model).values()]
        values = np.array([[group.bleu for group in groups] for groups in found])
        if len(found) >= ENOUGH_SEEDS:
            return values
        mean = values.mean(0)
        spread = np.array([[group.spread for group in groups] for groups in found]).max(0)
        return np.array([mean - spread, mean, mean + spread])
