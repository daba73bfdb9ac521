"""The result of the study `sorting`, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from mnemoscope.core.arrays import Floats
from mnemoscope.studies.rates import TriedRate
from mnemoscope.studies.sentences import spread
from mnemoscope.studies.study import Diverged

# Given the right symbols so far, or reading its own answers.
Way = Literal["forced", "free"]

# Bins of the histograms of μ and σ, and parts of a signal whose attention mass is shown.
MU_EDGES = np.linspace(0, 1, 21)
SIGMA_EDGES = np.linspace(0, 1.5, 31)
PARTS = 32
# Streams whose attention is measured.
ROWS = 16


@dataclass(frozen=True)
class Attention:
    """Where the attention of a model goes while it answers, in `ROWS` streams of equal length.

    by_age     (A,)         share of the attention mass, by age in segments
    mu, sigma  (bins,)      share of the queries by μ and by σ of their density over the signal, in
                            the bins above; empty without a signal
    written    (W, PARTS)   first stream and layer: share of the mass by part of the signal, before
                            every write, the oldest part first; empty unless the signal is sticky
    """

    by_age: tuple[float, ...]
    mu: tuple[float, ...]
    sigma: tuple[float, ...]
    written: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Examined:
    """A trained model: its accuracy at every length tested, and where its attention goes.

    Attention is None for a memory that has no attention weights by age; ``afar`` is the same after
    the longest stream tested, None also in older results.
    """

    forced: tuple[float, ...]
    free: tuple[float, ...]
    attention: Attention | None
    seconds: float
    afar: Attention | None = None


@dataclass(frozen=True)
class SortingTrial:
    """One training, and what became of it."""

    model: str
    trained: int
    seed: int
    run: str
    outcome: Examined | Diverged


@dataclass(frozen=True)
class SortingModel:
    """What does not depend on the training; bytes are of one stream, after the longest test.

    counting  accuracy, by length tested, of exact counting of the tokens that the model's own cache
              and segment take in; empty for a memory without a cache, and in older results
    lr        the rate it was trained with; None in older results, which had one for all
    knob      what of the ∞-former was changed, where that is what it is for
    """

    label: str
    parameters: int
    state_bytes: int
    counting: tuple[float, ...] = ()
    lr: float | None = None
    knob: str = ""


@dataclass(frozen=True)
class SortingResult:
    """All models at all lengths; what exact counting gives is by length tested.

    windows  tokens that attention over as many as are carried takes in at the first answer, by
             length tested; in older results it was one number, ``window``
    swept    what was tried to choose the rates, on streams and a seed of its own; steps of these
             trainings and of the others, and shorter lengths that all began with: not in older ones
    """

    trained: tuple[int, ...]
    tested: tuple[int, ...]
    segment: int
    window: int
    chance: float
    counting_all: tuple[float, ...]
    counting_window: tuple[float, ...]
    models: dict[str, SortingModel]
    trials: tuple[SortingTrial, ...]
    windows: tuple[int, ...] = ()
    swept: tuple[TriedRate, ...] = ()
    steps: int = 0
    sweep_steps: int = 0
    curriculum: tuple[int, ...] = ()
    curriculum_steps: int = 0

    @property
    def window_name(self) -> str:
        """How many of the last tokens the window has, over the lengths tested."""
        return spread(self.windows or (self.window,))

    def outcomes(self, model: str, trained: int) -> list[Examined | Diverged]:
        """What became of the seeds of one model."""
        return [one.outcome for one in self.trials if (one.model, one.trained) == (model, trained)]

    def examined(self, model: str, trained: int) -> list[Examined]:
        """The seeds of one model that did not diverge."""
        return [one for one in self.outcomes(model, trained) if isinstance(one, Examined)]

    def scores(self, model: str, trained: int, way: Way) -> Floats:
        """Accuracy of one model trained at one length, (seeds, lengths); diverged = chance."""
        lost = (self.chance,) * len(self.tested)
        return np.array(
            [
                (one.forced if way == "forced" else one.free) if isinstance(one, Examined) else lost
                for one in self.outcomes(model, trained)
            ]
        )

    def scores_at(self, trained: int, length: int, way: Way = "forced") -> dict[str, Floats]:
        """Accuracy at one length by label of the model, (seeds,) each."""
        column = self.tested.index(length)
        return {
            facts.label: self.scores(model, trained, way)[:, column]
            for model, facts in self.models.items()
        }
