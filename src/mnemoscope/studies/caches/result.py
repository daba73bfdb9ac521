"""The result of the study `caches`: what every cache of every model recalled, episode by episode.

Shapes: E episodes, Q questions, one an age.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.core.statistics import Interval, bootstrap

FULL = "full"
# Those that choose what to hold by attention, and those that do not look.
CHOOSING, CONTROLS = ("h2o", "snapkv"), ("window", "random")
EVICTING = (*CONTROLS, *CHOOSING)
# As the page calls them.
LABELS = {"window": "window", "random": "random", "h2o": "H2O", "snapkv": "SnapKV"}


@dataclass(frozen=True)
class Asked:
    """One cache of one model at one task.

    costs    (E, Q) cross-entropy of an answer in bits, mean over the answers of a question
    bytes    that one stream carries when a question begins
    held     tokens of every head that are held then
    blanked  the costs without anything read before, of the full cache: all others have the same
    """

    costs: tuple[tuple[float, ...], ...]
    bytes: int
    held: int
    blanked: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True)
class Model:
    """One model: by task and by name of the cache, what was asked."""

    name: str
    asked: dict[str, dict[str, Asked]]


@dataclass(frozen=True)
class Task:
    """A task: tokens since the answers were read, bits and number of the answers of a question."""

    ages: tuple[int, ...]
    most: float
    answers: int


@dataclass(frozen=True)
class CachesResult:
    """Models that were asked, caches by name, and which bits each evicting one has the bytes of.

    caches   name -> (kind, bits): ("quantised", 4), ("h2o", 4) at the bytes of these, ("full", 0)
    given    the model that was given, empty for models trained here
    weights  what is known of the numbers of its weights, as told by who gave it
    """

    context: int
    segment: int
    dtype: str
    caches: dict[str, tuple[str, int]]
    tasks: dict[str, Task]
    models: tuple[Model, ...]
    given: str = ""
    weights: str = ""

    def bits(self, task: str, cache: str, model: int | None = None) -> Interval:
        """Bits of an answer that are recalled at every age, (Q,), with a bootstrap interval.

        Of one model, over episodes; of all, the episodes of all models.
        """
        chosen = self.models if model is None else (self.models[model],)
        costs = np.concatenate([np.array(one.asked[task][cache].costs) for one in chosen])
        most = self.tasks[task].most
        return bootstrap(costs, lambda means: np.maximum(0.0, most - means))

    def mean_bits(self, task: str, cache: str, ages: slice = slice(None)) -> list[Interval]:
        """By model, the bits of an answer that are recalled, mean over some of the ages."""
        most = self.tasks[task].most

        def known(means: Floats) -> Floats:
            return np.asarray(np.maximum(0.0, most - means[ages]).mean())

        return [bootstrap(model.asked[task][cache].costs, known) for model in self.models]

    def gain(self, task: str, cache: str, over: str, ages: slice = slice(None)) -> list[Interval]:
        """By model, how many bits of an answer one cache recalls more than another.

        Over the same episodes, mean over some of the ages, with a bootstrap interval.
        """
        most = self.tasks[task].most
        found = []
        for model in self.models:
            costs = [np.array(model.asked[task][name].costs)[:, ages] for name in (cache, over)]

            def more(means: Floats) -> Floats:
                known = np.maximum(0.0, most - means)
                return np.asarray(known[0].mean() - known[1].mean())

            found.append(bootstrap(np.stack(costs, 1), more))
        return found

    def bytes(self, task: str, cache: str) -> int:
        """Measured bytes of one stream; all models are of one shape."""
        return self.models[0].asked[task][cache].bytes

    def per_byte(self, task: str, cache: str) -> float:
        """Bits recalled of all that was asked in an episode, per byte carried."""
        asked = self.tasks[task]
        mean = float(np.mean([one.value for one in self.mean_bits(task, cache)]))
        return mean * len(asked.ages) * asked.answers / self.bytes(task, cache)

    def beyond(self, task: str, cache: str) -> slice:
        """The ages of which a window of this cache's size holds nothing any more."""
        held = self.models[0].asked[task][cache].held
        gone = [at for at, age in enumerate(self.tasks[task].ages) if age >= held]
        return slice(gone[0] if gone else len(self.tasks[task].ages), None)

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """The bits whose bytes evicting caches were given."""
        return tuple(dict.fromkeys(bits for kind, bits in self.caches.values() if kind in EVICTING))

    def at(self, bits: int) -> dict[str, str]:
        """By kind, the cache that has the bytes of so many bits."""
        return {kind: name for name, (kind, level) in self.caches.items() if level == bits}


def check_capacity(asked: Asked, task: Task, name: str) -> None:
    """Raise when more was recalled of an episode than the state can hold: 8 bits a byte."""
    known = np.maximum(0.0, task.most - np.array(asked.costs).mean(0)).sum() * task.answers
    if known > 8 * asked.bytes:
        raise AssertionError(
            f"{name} recalled {known:.1f} bits from a state of {asked.bytes} bytes, which holds "
            f"{8 * asked.bytes} at most: it carries more than its state"
        )
