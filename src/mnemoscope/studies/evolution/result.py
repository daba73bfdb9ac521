"""What the study `evolution` finds, as data that goes to JSON and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from mnemoscope.core.arrays import Floats
from mnemoscope.lenses.information.result import NEARLY
from mnemoscope.studies.study import Diverged

OBJECTIVES = ("MT", "LM", "MLM")
# What becomes of a word when a masked language model reads.
FATES = ("hidden", "replaced", "kept", "untouched")

# One value for every site, or for every layer.
Curve = tuple[float, ...]


@dataclass(frozen=True)
class ByFrequency:
    """PWCCA distances of groups of tokens, by layer; ``left_out`` had too few, and how many.

    Groups are of frequency, or of parts of speech.
    """

    groups: tuple[str, ...]
    left_out: dict[str, int]
    distance: tuple[Curve, ...]
    error: tuple[Curve, ...]


@dataclass(frozen=True)
class Apart:
    """What layers make of words of one fate: nats about the word that stood there and about the one
    that is read, shuffled, all there are; and PWCCA distance of every layer to the one below.
    """

    word: Curve
    null: Curve
    entropy: float
    read: Curve
    change: Curve


@dataclass(frozen=True)
class Masked:
    """Nats about words that were hidden: in their own vectors, shuffled, and all there are.

    ``apart`` has them beside the others of `FATES`. Older results pooled all that are asked for.
    """

    label: Curve
    null: Curve
    entropy: float
    apart: dict[str, Apart] = field(default_factory=dict)


@dataclass(frozen=True)
class Moment:
    """What the lenses saw in a model on its way, after so many steps; fewer tokens than at its end.

    Values of moments can be compared with each other, and with nothing else.

    valid_loss           as far as it had come
    information, null    nats about the token read and the next one, by what is asked about
    hidden               nats about words under the mask; None for a model that knows no mask
    change, influence    as in `Examined`
    neighbours           what nearest neighbours share
    """

    step: int
    valid_loss: float
    information: dict[str, Curve]
    null: dict[str, Curve]
    change: Curve
    change_by_group: ByFrequency
    influence: ByFrequency
    neighbours: dict[str, Curve]
    hidden: Curve | None = None


@dataclass(frozen=True)
class Drawn:
    """Occurrences of a few tokens, as the lens of that name draws them.

    words, positions   (n,) which token each is, and where in its sentence
    coordinates        (sites, n, 2) two principal components
    explained          (sites,) share of the variance that they hold
    even               what they would hold if all dimensions held the same
    """

    words: tuple[str, ...]
    positions: tuple[int, ...]
    coordinates: tuple[tuple[tuple[float, float], ...], ...]
    explained: Curve
    even: float


@dataclass(frozen=True)
class Examined:
    """What the lenses saw in one trained model; of a dict, the keys are what is asked about.

    sites                       embeddings, then all layers
    information, null           nats about a token, and when shuffled; mean over clusterings
    adjusted, inertia           mutual information corrected for chance; spread within clusters
    clustering_spread           most that another seed of the clustering moves a value
    change                      PWCCA distance of every layer to the one below
    neighbours, …_null          what nearest neighbours share; ``ceiling`` is the most they could
    seconds                     of training
    masked                      None for a model that knows no mask
    trivial                     loss of unigrams and bigrams on what ``valid_loss`` is of
    probe                       nats that a linear reader finds at least
    cluster_entropy             of every site: no cluster tells more
    bleu                        of a translator, on some of the validation part; None: not measured
    change_by_class, …          change and influence by part of speech; None: not English
    moments                     the same model on its way
    drawn                       occurrences of a few words; None: not drawn
    """

    sites: tuple[str, ...]
    tokens: int
    entropy: dict[str, float]
    information: dict[str, Curve]
    null: dict[str, Curve]
    adjusted: dict[str, Curve]
    inertia: Curve
    clustering_spread: dict[str, float]
    change: Curve
    change_by_group: ByFrequency
    influence: ByFrequency
    neighbours: dict[str, Curve]
    neighbours_null: dict[str, float]
    ceiling: float
    seconds: float
    valid_loss: float
    masked: Masked | None = None
    trivial: dict[str, float] = field(default_factory=dict)
    probe: dict[str, Curve] = field(default_factory=dict)
    cluster_entropy: Curve = ()
    clusters: int = 0
    bleu: float | None = None
    change_by_class: ByFrequency | None = None
    influence_by_class: ByFrequency | None = None
    moments: tuple[Moment, ...] = ()
    drawn: Drawn | None = None

    def at_ceiling(self, target: str) -> bool:
        """Whether clusters of some site tell nearly all they can, and less than there is."""
        return any(
            most < self.entropy[target] and known >= NEARLY * most
            for most, known in zip(self.cluster_entropy, self.information[target], strict=False)
        )


@dataclass(frozen=True)
class Short:
    """What a short training came to on validation data."""

    valid_loss: float


@dataclass(frozen=True)
class Trained:
    """One training: what it was of, the name of its run, and how it ended.

    ``same_start`` is true of those that begin with one encoder, whatever their objective.
    """

    objective: str
    seed: int
    run: str
    outcome: Examined | Diverged
    same_start: bool = False


@dataclass(frozen=True)
class Distance:
    """PWCCA distance between two runs, site by site, and that of tokens paired at random."""

    left: str
    right: str
    pwcca: Curve
    null: Curve


@dataclass(frozen=True)
class Tried:
    """A short training at one learning rate, and how it ended."""

    objective: str
    lr: float
    outcome: Short | Diverged


@dataclass(frozen=True)
class DistancesAt:
    """PWCCA distances between all runs after so many steps, on the tokens of the moments."""

    step: int
    distances: tuple[Distance, ...]


@dataclass(frozen=True)
class Film:
    """Distances at all moments."""

    moments: tuple[DistancesAt, ...]


@dataclass(frozen=True)
class EvolutionResult:
    """All that the page says and draws; ``k`` counts neighbours, ``parameters`` is by objective.

    untrained     distances of runs (left) from the same model before its first step
    moments       distances while the runs were trained
    rates         learning rates that were chosen, by objective
    tried         short trainings that they were chosen by; none where a rate was given
    """

    corpus: str | None
    layers: int
    width: int
    clusters: int
    samples: int
    k: int
    parameters: dict[str, int]
    trials: tuple[Trained, ...]
    distances: tuple[Distance, ...]
    untrained: tuple[Distance, ...] = ()
    moments: tuple[DistancesAt, ...] = ()
    rates: dict[str, float] = field(default_factory=dict)
    tried: tuple[Tried, ...] = ()

    def examined(self, *objectives: str) -> list[Examined]:
        """The trainings of some objectives, or of all, that did not diverge."""
        wanted = objectives or OBJECTIVES
        trials = [one for one in self.trials if one.objective in wanted]
        return [one.outcome for one in trials if isinstance(one.outcome, Examined)]

    def curves(self, objective: str, of: Callable[[Examined], ArrayLike]) -> Floats:
        """Some numbers of the trainings of one objective that did not diverge, (trainings, …)."""
        return np.array([of(one) for one in self.examined(objective)], dtype=np.float64)

    def between(
        self,
        left: str,
        right: str,
        *,
        same_start: bool = False,
        among: Sequence[Distance] | None = None,
    ) -> Floats:
        """PWCCA of runs of two objectives, (pairs of runs, sites); of one with itself: seeds.

        Of runs with different initialisations, or of those that have the same; ``among`` all
        distances at the end of training, or others.
        """
        trial = {one.run: one for one in self.trials}
        wanted = sorted((left, right))

        def chosen(one: Distance) -> bool:
            a, b = trial[one.left], trial[one.right]
            alike = a.same_start and b.same_start
            return sorted((a.objective, b.objective)) == wanted and alike == same_start

        given = self.distances if among is None else among
        return np.array([one.pwcca for one in given if chosen(one)])
