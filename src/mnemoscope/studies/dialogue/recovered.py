"""The losses in a result of `dialogue` as arrays, with bootstrap draws of seeds and conversations.

Shapes: S seeds, C conversations, G groups of tokens, D draws.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mnemoscope.core.arrays import Floats
from mnemoscope.core.seeds import derive
from mnemoscope.core.statistics import RESAMPLES as DRAWS
from mnemoscope.core.statistics import Estimate, bootstrap_weights
from mnemoscope.studies.dialogue.contestants import CEILING, FLOOR
from mnemoscope.studies.dialogue.result import DialogueResult, Examined

Mask = NDArray[np.bool_]


class Recovered:
    """What replies cost, by model, seed, conversation and group of tokens.

    A model all of whose trainings diverged is left out. With ``rating`` only conversations that
    the corpus rates so are counted.
    """

    def __init__(self, result: DialogueResult, rating: int | None = None) -> None:
        self.result = result
        rows = result.conversations
        self.chosen: Mask = np.array([rating in (None, one.rating) for one in rows])
        self.counts: Floats = np.array([one.counts for one in rows])[self.chosen]
        self.words = sum(one.words for one in rows if rating in (None, one.rating))
        self.trials: dict[str, list[Examined]] = {}
        for model, facts in result.models.items():
            seeds = [
                one.outcome
                for one in sorted(result.trials, key=lambda trial: trial.seed)
                if (one.model, one.lr) == (model, facts.lr) and isinstance(one.outcome, Examined)
            ]
            if seeds:
                self.trials[model] = seeds
        self.labels = {model: result.models[model].label for model in self.trials}
        # The same conversations are drawn for all models: differences between them are paired.
        rng = np.random.default_rng(derive(0, "bootstrap", "conversations"))
        self._drawn = bootstrap_weights(len(self.counts), DRAWS, rng)

    @property
    def bounded(self) -> bool:
        """Whether there is a floor and a ceiling to measure against."""
        return FLOOR in self.trials and CEILING in self.trials

    @property
    def contestants(self) -> list[str]:
        """The models that are neither floor nor ceiling."""
        return [model for model in self.trials if model not in (FLOOR, CEILING)]

    def control(self, model: str) -> str:
        """What a model read in training: the floor knows no documents."""
        return "none" if model == FLOOR else "own"

    def has(self, group: str) -> bool:
        """Whether any token is in a group."""
        found = group in self.result.groups
        return found and bool(self.counts[:, self.result.groups.index(group)].any())

    def numbered(self, kind: str) -> dict[int, str]:
        """Groups that are called ``kind`` and a number, by that."""
        pairs = [name.split() for name in self.result.groups if name.startswith(f"{kind} ")]
        return {int(number): f"{kind} {number}" for _, number in pairs}

    def loss(self, model: str, group: str = "all", control: str = "") -> Floats:
        """Nats per token of each seed, (S,)."""
        return self._rate(self._sums(model, "nats", group, control), group)

    def accuracy(self, model: str, group: str = "all", control: str = "") -> Floats:
        """Share of the tokens that were foreseen, of each seed, (S,)."""
        return self._rate(self._sums(model, "right", group, control), group)

    def perplexity(self, model: str) -> Floats:
        """Per word of the replies, of each seed, (S,)."""
        spent = self._sums(model, "nats", "all", "").sum(1)
        found: Floats = np.exp(spent / self.words)
        return found

    def gain(self, group: str = "document") -> Estimate:
        """Nats per token that seeing all of the document saves against seeing none of it."""
        mean = float(self.loss(FLOOR, group).mean() - self.loss(CEILING, group).mean())
        return Estimate.of(mean, self._draws(FLOOR, group) - self._draws(CEILING, group))

    def saved(self, model: str, group: str = "document") -> Estimate:
        """Nats per token that a model saves against seeing no document."""
        mean = float(self.loss(FLOOR, group).mean() - self.loss(model, group).mean())
        return Estimate.of(mean, self._draws(FLOOR, group) - self._draws(model, group))

    def share(self, model: str, group: str = "all") -> Estimate:
        """Share of that gain which a model has: 0 is the floor, 1 the ceiling."""
        floor, own, top = (self.loss(one, group).mean() for one in (FLOOR, model, CEILING))
        drawn = [self._draws(one, group) for one in (FLOOR, model, CEILING)]
        draws = _share(*drawn)
        if np.isnan(draws).all():
            return Estimate(np.nan, np.nan, np.nan)
        return Estimate.of(float(_share(floor, own, top)), draws)

    def shares(self, model: str, group: str = "all") -> Floats:
        """The same of each seed, floor and ceiling being means, (S,)."""
        floor, top = (self.loss(one, group).mean() for one in (FLOOR, CEILING))
        return _share(floor, self.loss(model, group), top)

    def apart(self, model: str, other: str, group: str = "all") -> Estimate:
        """How much more of the gain a model has than another one."""
        floor, top = (self._draws(one, group) for one in (FLOOR, CEILING))
        drawn = [_share(floor, self._draws(one, group), top) for one in (model, other)]
        means = [self.share(one, group).mean for one in (model, other)]
        return Estimate.of(means[0] - means[1], drawn[0] - drawn[1])

    def all_of(self, seeds: Floats, estimate: Estimate) -> Floats:
        """The values that must all show what is claimed: those of every seed.

        Of a single training, such as a pretrained model, seeds say nothing: then they are both
        ends of the interval over conversations.
        """
        return seeds if len(seeds) > 1 else np.array([estimate.low, estimate.high])

    @property
    def single(self) -> bool:
        """Whether no model was trained more than once."""
        return all(len(seeds) == 1 for seeds in self.trials.values())

    def cost(self, model: str, control: str, group: str = "document") -> Estimate:
        """Nats per token that replies cost more when another document, or none, was read."""
        mean = float((self.loss(model, group, control) - self.loss(model, group)).mean())
        return Estimate.of(mean, self._draws(model, group, control) - self._draws(model, group))

    def right(self, model: str, group: str = "all") -> Estimate:
        """Share of the tokens that were foreseen."""
        sums = self._sums(model, "right", group, "")
        return Estimate.of(
            float(self._rate(sums, group).mean()), self._drawn_rate(model, sums, group)
        )

    def _sums(self, model: str, what: str, group: str, control: str) -> Floats:
        """Of every seed and conversation the sum over the tokens of a group, (S, C)."""
        place = self.result.groups.index(group)
        control = control or self.control(model)
        grids = [getattr(one, what)[control] for one in self.trials[model]]
        return np.array([[row[place] for row in grid] for grid in grids])[:, self.chosen]

    def _of(self, group: str) -> Floats:
        found: Floats = self.counts[:, self.result.groups.index(group)]
        return found

    def _rate(self, sums: Floats, group: str) -> Floats:
        count = self._of(group).sum()
        found: Floats = sums.sum(1) / count if count else np.full(len(sums), np.nan)
        return found

    def _draws(self, model: str, group: str, control: str = "") -> Floats:
        """Nats per token in every draw, (D,)."""
        return self._drawn_rate(model, self._sums(model, "nats", group, control), group)

    def _drawn_rate(self, model: str, sums: Floats, group: str) -> Floats:
        rng = np.random.default_rng(derive(0, "bootstrap", "seeds", model))
        seeds = bootstrap_weights(len(sums), DRAWS, rng)
        spent = np.einsum("ds,sc,dc->d", seeds, sums, self._drawn)
        over = self._drawn @ self._of(group)
        # A draw may hold no conversation that has such tokens.
        found: Floats = np.divide(spent, over, out=np.full(DRAWS, np.nan), where=over > 0)
        return found


def _share(floor: Floats, own: Floats, ceiling: Floats) -> Floats:
    """(floor − own) / (floor − ceiling), not a number where there is nothing to recover."""
    gain = np.asarray(floor - ceiling, dtype=np.float64)
    saved = np.asarray(floor - own, dtype=np.float64)
    found: Floats = np.divide(
        saved, gain, out=np.full(np.broadcast(saved, gain).shape, np.nan), where=gain > 0
    )
    return found
