"""The result of the study `infinite`, and the loss that nothing without a past can beat."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.core.statistics import Estimate, bootstrap
from mnemoscope.report.claims import Gate

Kind = Literal["signal", "transformer_xl", "both"]
Past = Literal["own", "none", "other"]
Over = Literal["none", "other"]
TokenClass = Literal["other", "returning", "rare"]

# What is predicted: a word that is rare in the novels of training (most names are) and came before
# in the passage but not in the window; another rare word; anything else.
CLASSES: dict[TokenClass, str] = {
    "other": "all other tokens",
    "returning": "rare words that return from before the window",
    "rare": "other rare words",
}

# What is attached, as the page calls it.
KINDS: dict[Kind, str] = {
    "signal": "∞-former's signal",
    "transformer_xl": "Transformer-XL's cache",
    "both": "cache and signal",
}


@dataclass(frozen=True)
class Fit:
    """One memory that was trained on one frozen model.

    losses   mean loss (nats) at each position of a window but the first, after each past
    over_…   nats per token that the own past saves, over windows
    bytes    that one text carries between windows
    windows  that were read to measure it
    """

    losses: dict[Past, tuple[float, ...]]
    over_none: Estimate
    over_other: Estimate
    bytes: int
    windows: int

    def loss(self, past: Past) -> float:
        """Mean over the positions of a window."""
        return float(np.mean(self.losses[past]))


@dataclass(frozen=True)
class Measured:
    """All kinds of memory on one model.

    trivial  loss of single words by their frequency, which the model must beat; None in results
             of versions that did not count
    """

    fits: dict[Kind, Fit]
    trivial: float | None = None


@dataclass(frozen=True)
class Attached:
    """All kinds of memory on the models of one sort of text, seed by seed."""

    seeds: tuple[Measured, ...]

    @property
    def gate(self) -> Gate:
        """Whether the models predict better than frequencies of words do, with no past at all."""
        margins = [
            np.nan if one.trivial is None else one.trivial - one.fits["signal"].loss("none")
            for one in self.seeds
        ]
        return Gate("loss without a state below that of word frequencies", margins)

    def fits(self, kind: Kind) -> list[Fit]:
        """Those of one kind of memory."""
        return [one.fits[kind] for one in self.seeds]

    def gains(self, kind: Kind, over: Over) -> Floats:
        """Gain over no past or another text's, and the ends of its interval, (seeds, 3)."""
        found = [one.over_none if over == "none" else one.over_other for one in self.fits(kind)]
        return np.array([(gain.mean, gain.low, gain.high) for gain in found])


@dataclass(frozen=True)
class Reader:
    """Who reads novels.

    kind     window alone, whole context, or which memory
    window   tokens seen at most without what is older; memories read half of it at a time
    vectors  that a layer keeps, where it is not as many as in all others
    layers   that have the memory, where it is not all
    """

    kind: str
    window: int
    vectors: int | None = None
    layers: str = ""

    @property
    def plain(self) -> bool:
        """Whether it keeps as many vectors as all, in all layers."""
        return self.vectors is None and not self.layers


@dataclass(frozen=True)
class NovelLosses:
    """What one contestant makes of passages of novels, a number for each passage.

    reader  who it is
    losses  mean nats per token with the own past, and, where it was asked, with none and another's
    sums    nats of all tokens of a class
    tokens  how many these are
    words   that were predicted
    bytes   that one passage carries between windows
    """

    reader: Reader
    losses: dict[Past, tuple[float, ...]]
    sums: dict[TokenClass, tuple[float, ...]]
    tokens: dict[TokenClass, tuple[int, ...]]
    words: tuple[int, ...]
    bytes: int

    def nats(self, past: Past = "own") -> Floats:
        """Mean loss of every passage."""
        return np.array(self.losses[past])


@dataclass(frozen=True)
class TriedRate:
    """A learning rate of something that learns from novels, and how it then reads.

    nats  per token, on passages that nothing is reported of; infinite if it diverged
    """

    kind: str
    lr: float
    nats: float


@dataclass(frozen=True)
class Novels:
    """A pretrained model reads novels it was not trained on, by contestant.

    books     that the passages are of, in turn
    context   tokens of a passage, of whose second half all are predicted
    vectors   that a memory keeps in each layer, sinks apart
    windows   tokens that the model sees at most without a memory
    trained   tokens that what learns has learnt from
    tried     learning rates of what learns: the one with the lowest loss is reported
    dtype     what the model computes and stores in
    """

    books: tuple[str, ...]
    context: int
    vectors: int
    windows: tuple[int, ...]
    trained: int
    readings: tuple[NovelLosses, ...]
    tried: tuple[TriedRate, ...] = ()
    dtype: str = "float32"

    def find(self, kind: str, window: int | None = None) -> NovelLosses | None:
        """The reading of one kind with all vectors in all layers, at a window or the first."""
        wanted = Reader(kind, self.windows[0] if window is None else window)
        return next((one for one in self.readings if one.reader == wanted), None)

    def reading(self, kind: str, window: int | None = None) -> NovelLosses:
        """The same, which is there in every result."""
        found = self.find(kind, window)
        assert found is not None, f"nobody read as {kind}"
        return found

    def share(self, one: NovelLosses, window: int, part: TokenClass | None = None) -> Estimate:
        """Share of the gain from window alone to whole context, 95 % over passages."""
        three = [self.reading("floor", window), one, self.reading("ceiling")]
        if part is None:
            each = np.stack([one.nats() for one in three], 1)
        else:
            each = np.stack([np.array(one.sums[part]) for one in three], 1)

        def share(means: Floats) -> Floats:
            with np.errstate(divide="ignore", invalid="ignore"):  # a class that no passage has
                return np.asarray((means[0] - means[1]) / (means[0] - means[2]))

        found = bootstrap(each, share)
        return Estimate(float(found.value), float(found.low), float(found.high))

    def saved(self, one: NovelLosses, window: int) -> Estimate:
        """Nats per token that a contestant saves over the window alone."""
        found = bootstrap(self.reading("floor", window).nats() - one.nats())
        return Estimate(float(found.value), float(found.low), float(found.high))


@dataclass(frozen=True)
class InfiniteResult:
    """Made-up texts use ``own`` of ``vocab_size`` words; windows are of so many tokens.

    With a pretrained model there are ``novels`` instead of made-up texts and topics.
    """

    vocab_size: int
    own: int
    window: int
    topic_window: int
    made_up: Attached = Attached(())
    topics: Attached = Attached(())
    novels: Novels | None = None


def best_without_past(vocab_size: int, own: int, length: int) -> list[float]:
    """The lowest loss any model can have at each position of a window of made-up text.

    Of the ``own`` words, d have been seen in the window: the next is one of them with 1/own each,
    or else any of the others, which all look the same.
    """
    seen = np.zeros(own + 1)
    seen[0] = 1.0
    d = np.arange(own + 1)
    new = 1 - d / own
    with np.errstate(divide="ignore", invalid="ignore"):
        surprise = np.where(new > 0, new * (np.log(vocab_size - d) - np.log(new)), 0.0)
    cost = d / own * math.log(own) + surprise
    found = []
    for _ in range(length):
        found.append(float(seen @ cost))
        moved = seen * new
        seen = seen - moved
        seen[1:] += moved[:-1]
    return found
