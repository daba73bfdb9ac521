"""The losses in a result of `books` as arrays, with bootstrap draws of seeds and passages."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mnemoscope.core.arrays import Floats
from mnemoscope.core.seeds import derive
from mnemoscope.core.statistics import RESAMPLES as DRAWS
from mnemoscope.core.statistics import Estimate, bootstrap_weights
from mnemoscope.report.claims import Gate
from mnemoscope.studies.books.passages import starts
from mnemoscope.studies.books.result import BooksResult, Examined

Mask = NDArray[np.bool_]
# Bits per byte that count as a difference: with less, perplexity per byte moves by 0.3 %.
LEAST = 0.005
# Nats per token that full attention must surely gain over no memory before shares of it are told.
RECOVERABLE = 0.03
FLOOR, CEILING = "none", "ceiling"


class Losses:
    """What reading cost, by model, seed, passage and stretch of the reading.

    A model all of whose trainings diverged is left out.
    """

    def __init__(self, result: BooksResult) -> None:
        self.result = result
        self.bytes: Floats = np.array([one.bytes for one in result.passages])
        self.probed: Floats = np.array([one.probed for one in result.passages])
        # Where tokens are bytes, they are counted once.
        self.tokens: Floats = np.array([one.tokens or one.bytes for one in result.passages])
        # What a bit per byte is in nats per token.
        self.nats = math.log(2) * float(self.bytes.sum() / self.tokens.sum())
        self.unit = "bytes" if result.unit == "bytes" else "tokens"
        self.books = [one.book for one in result.passages]
        # By model, then by seed.
        self.trials: dict[str, dict[int, Examined]] = {}
        for model in result.models:
            seeds = {
                one.seed: one.outcome
                for one in result.trials
                if one.model == model and isinstance(one.outcome, Examined)
            }
            if seeds:
                self.trials[model] = seeds
        self.models = list(self.trials)
        self.labels = {model: result.models[model].label for model in self.models}
        before = starts(self.bytes.shape[1] + 1, result.segment)
        self.ends: list[int] = before[1:].tolist()
        self.all: Mask = np.full(len(self.ends), True)
        self.warm: Mask = (before[:-1] >= result.warm) & (self.probed.sum(0) > 0)
        self.warm_from = int(before[:-1][self.warm][0])
        # The same passages are drawn for all models: differences between them are paired.
        rng = np.random.default_rng(derive(0, "bootstrap", "passages"))
        self._passages = bootstrap_weights(len(self.books), DRAWS, rng)

    @property
    def remembering(self) -> list[str]:
        """The models that have a memory of the size that is compared."""
        return [model for model in self.models if model not in (FLOOR, CEILING)]

    @property
    def carrying(self) -> list[str]:
        """The models that carry anything."""
        return [model for model in self.models if model != FLOOR]

    @property
    def gates(self) -> dict[str, Gate]:
        """Whether models beat counted pairs of tokens; results of older versions cannot tell."""
        bigram = self.result.bigram
        if bigram is None:
            return {}
        asked = f"fewer than the {bigram:.3f} bits per byte of counted pairs of {self.unit}"
        return {model: Gate(asked, bigram - self.rate(model)) for model in self.models}

    @cached_property
    def ranked(self) -> list[str]:
        """The models that have learnt enough to be compared."""
        gates = self.gates
        return [model for model in self.models if model not in gates or gates[model].passed]

    def only(self, stretch: int) -> Mask:
        """One stretch of the reading."""
        found: Mask = np.arange(len(self.ends)) == stretch
        return found

    def bits(self, model: str) -> Floats:
        """Bits spent, (seeds, passages, stretches)."""
        return np.array([one.bits for one in self.trials[model].values()])

    def has(self, model: str, control: str) -> bool:
        """Whether a control exists for a model."""
        return control in next(iter(self.trials[model].values())).extra

    def rate(self, model: str, chosen: Mask | None = None, book: str | None = None) -> Floats:
        """Bits per byte of each seed, over some stretches and one book or all, (seeds,)."""
        chosen = self.all if chosen is None else chosen
        rows = [book in (None, one) for one in self.books]
        spent = self.bits(model)[:, rows][:, :, chosen].sum((1, 2))
        found: Floats = spent / self.bytes[rows][:, chosen].sum()
        return found

    def curve(self, model: str) -> Floats:
        """Bits per byte of each seed in each stretch, (seeds, stretches)."""
        found: Floats = self.bits(model).sum(1) / self.bytes.sum(0)
        return found

    def gain(self, model: str, chosen: Mask) -> Estimate:
        """Bits per byte saved against the model without memory."""
        return Estimate.of(*self._saved(model, chosen))

    @cached_property
    def recoverable(self) -> Estimate | None:
        """Nats per token that full attention gains over no memory; None unless both are there."""
        if FLOOR not in self.models or CEILING not in self.models:
            return None
        mean, draws = self._saved(CEILING, self.all)
        return Estimate.of(self.nats * mean, self.nats * draws)

    @property
    def enough(self) -> bool:
        """Whether full attention surely gains enough over no memory to speak of shares of it."""
        gain = self.recoverable
        both = FLOOR in self.ranked and CEILING in self.ranked
        return both and gain is not None and gain.low >= RECOVERABLE

    def share(self, model: str, chosen: Mask) -> Estimate:
        """What a model saves of what full attention saves against no memory."""
        return _ratio(self._saved(model, chosen), self._saved(CEILING, chosen))

    def older_share(self, model: str) -> Estimate:
        """What an exchange of all that is older than the cache costs, in what there is to gain."""
        return _ratio(self._cost(model, "older shuffled"), self._saved(CEILING, self.warm))

    def nats_per_token(self, model: str) -> Floats:
        """Of each seed, (seeds,)."""
        found: Floats = self.rate(model) * self.nats
        return found

    def word_perplexity(self, model: str, book: str | None = None) -> Floats | None:
        """Of each seed, (seeds,): e to all nats over all words; None where nobody counted them."""
        rows = [book in (None, one) for one in self.books]
        words = [
            one.words for one, chosen in zip(self.result.passages, rows, strict=True) if chosen
        ]
        if None in words:
            return None
        found: Floats = 2 ** (self.bits(model)[:, rows].sum((1, 2)) / sum(filter(None, words)))
        return found

    def growth(self, model: str, early: Mask, late: Mask) -> Estimate:
        """How much larger the gain is in late stretches than in early ones."""
        (before, some), (after, more) = (self._saved(model, one) for one in (early, late))
        return Estimate.of(after - before, more - some)

    def cost(self, model: str, control: str, against: str | None = None) -> Estimate:
        """Bits per byte that a control costs after the warm-up, or costs more than another."""
        return Estimate.of(*self._cost(model, control, against))

    def uses_older(self, model: str) -> tuple[bool, bool]:
        """Whether what is older than the cache is missed when blank, or when another passage's."""
        blank, other = (self.cost(model, f"older {how}") for how in ("blanked", "shuffled"))
        return blank.low >= LEAST, other.low >= LEAST

    def _cost(self, model: str, control: str, against: str | None = None) -> tuple[float, Floats]:
        extra = self._extra(model, control)
        if against is not None:
            extra = extra - self._extra(model, against)
        mean = extra[:, :, self.warm].sum((1, 2)).mean() / self.probed[:, self.warm].sum()
        return float(mean), self._draws(model, extra, self.probed, self.warm)

    def _extra(self, model: str, control: str) -> Floats:
        return np.array([one.extra[control] for one in self.trials[model].values()])

    def _saved(self, model: str, chosen: Mask) -> tuple[float, Floats]:
        """Bits per byte saved against no memory, and in every draw."""
        mean = float(self.rate("none", chosen).mean() - self.rate(model, chosen).mean())
        none, own = (
            self._draws(one, self.bits(one), self.bytes, chosen) for one in ("none", model)
        )
        return mean, none - own

    def _draws(self, model: str, bits: Floats, read: Floats, chosen: Mask) -> Floats:
        """Bits per byte in every draw, (draws,)."""
        rng = np.random.default_rng(derive(0, "bootstrap", "seeds", model))
        drawn = bootstrap_weights(len(bits), DRAWS, rng)
        spent = np.einsum("ds,sp,dp->d", drawn, bits[:, :, chosen].sum(2), self._passages)
        over = self._passages @ read[:, chosen].sum(1)
        # A draw may hold only passages that ended before these stretches.
        found: Floats = np.divide(spent, over, out=np.full(DRAWS, np.nan), where=over > 0)
        return found


def _ratio(part: tuple[float, Floats], whole: tuple[float, Floats]) -> Estimate:
    """A mean over another, and draw by draw; a draw without a gain says nothing of its shares."""
    (some, drawn), (all_of_it, all_drawn) = part, whole
    draws = np.divide(drawn, all_drawn, out=np.full(DRAWS, np.nan), where=all_drawn > 0)
    return Estimate.of(some / all_of_it, draws)
