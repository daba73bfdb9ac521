"""What the study `documents` found, as data that goes to JSON and back.

Shapes: N documents, E entries, K numbers of a representation, M steps that were recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from pydantic import ConfigDict

from mnemoscope.core.arrays import Floats
from mnemoscope.studies.documents.settings import Setting

Vector = tuple[float, ...]
Matrix = tuple[Vector, ...]
Names = tuple[str, ...]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Size and spread of a selection (N, E).

    on, dead, negative   shares: gates that are open, entries that no document opens, gates below 0
    length, apart        mean length of a document's gates, mean distance between two documents'
    """

    on: float
    dead: float
    negative: float
    length: float
    apart: float

    @property
    def apart_by_length(self) -> float:
        """Distance between documents over their length."""
        return self.apart / max(self.length, 1e-12)


@dataclass(frozen=True, kw_only=True)
class ShapeAt(Shape):
    """The shape of a selection at one step of its training."""

    step: int


@dataclass(frozen=True)
class Frames:
    """How a selection came to be: (M, N, E), with the steps and the names of documents."""

    steps: tuple[int, ...]
    selections: tuple[Matrix, ...]
    names: Names


@dataclass(frozen=True)
class SelectionMap:
    """The gates (N, E) of every document."""

    selection: Matrix
    names: Names


@dataclass(frozen=True)
class Gradient:
    """Norms at the representations at one step: of the right document's loss, of guidance."""

    step: int
    right: float
    wrong: float


@dataclass(frozen=True)
class Paths:
    """Where representations were while they were learnt.

    points  (M, N, 2) on the two axes along which they differ most; two numbers are as they are
    shown   share of their variance on these axes
    moved   (M,) distance from the start over the length at the start, in all numbers
    """

    steps: tuple[int, ...]
    points: tuple[Matrix, ...]
    names: Names
    shown: float
    moved: Vector


@dataclass(frozen=True)
class Split:
    """How log p of words changes under their document, (N,) each.

    over_average   of its own words, less that of the average word: a change of log-odds
    average        of all words of the vocabulary, in the mean
    rival          of the words that the base likes best instead; older results have none

    ``entry`` is the one that is opened widest; it raises and lowers these tokens. ``signs`` is the
    change of log p of the token it raises most, by the signs of value and gate.
    """

    # As older versions called them, which took them for shares of the gain.
    __pydantic_config__ = ConfigDict(
        alias_generator=lambda name: {"over_average": "raised", "average": "lowered"}.get(
            name, name
        ),
        populate_by_name=True,
    )

    names: Names
    over_average: Vector
    average: Vector
    entry: int
    raises: Names
    lowers: Names
    signs: dict[str, float]
    rival: Vector = ()

    @property
    def gain(self) -> Floats:
        """Of the document's own words, (N,)."""
        return np.add(self.over_average, self.average)


@dataclass(frozen=True)
class Plane:
    """Loss of a few documents over the plane of representations, and how smooth the map is.

    ticks, maps       coordinates, and losses at each pair of them
    names, keys       the documents, and where their own representations lie
    miss              from there to the lowest loss, in radii of the plane
    half              share of the plane nearer to the lowest than to the highest loss
    steepest, bound   change of gates per change of representation: largest seen, largest possible
    """

    ticks: Vector
    maps: tuple[Matrix, ...]
    names: Names
    keys: Matrix
    miss: Vector
    half: Vector
    steepest: float
    bound: float


@dataclass(frozen=True)
class Line:
    """Losses (pairs, points) of documents on the way from their representation to another's."""

    share: Vector
    losses: Matrix


@dataclass(frozen=True)
class Sizes:
    """Tokens of every document, the sum of its gates' sizes, and how many are open."""

    tokens: tuple[int, ...]
    size: Vector
    on: Vector


@dataclass(frozen=True)
class Newcomers:
    """Losses of documents that were not learnt, where an encoder puts them; share named."""

    right: float
    none: float
    wrong: float
    named: float

    @property
    def gain(self) -> float:
        """What the memory saves them."""
        return self.none - self.right


@dataclass(frozen=True, kw_only=True)
class Fit(Shape):
    """One training: losses in nats per token, the selection at its end, and further measures.

    right, wrong, none, random, zero   under the right, a wrong, no, a random document, and zeros;
                                       the last two only where representations are learnt
    named                              share of segments whose own document has the lowest loss
    later_right, later_none            of the segment that follows what was learnt
    unrelated, unrelated_none          of texts nobody learnt, under the documents
    moved, flipped                     of the representations: distance by length, signs changed
    """

    # Files of older versions have these names with spaces.
    __pydantic_config__ = ConfigDict(
        alias_generator=lambda name: name.replace("_", " "), populate_by_name=True
    )

    right: float
    wrong: float
    none: float
    named: float
    tau: float
    later_right: float
    later_none: float
    unrelated: float
    unrelated_none: float
    moved: float
    flipped: float
    selection_moved: float
    seconds: float
    steps: int
    segments: int
    random: float | None = None
    zero: float | None = None
    frames: Frames | None = None
    paths: Paths | None = None
    shapes: tuple[ShapeAt, ...] | None = None
    map: SelectionMap | None = None
    gradients: tuple[Gradient, ...] | None = None
    gates: dict[str, float] | None = None
    split: Split | None = None
    plane: Plane | None = None
    line: Line | None = None
    sizes: Sizes | None = None
    newcomers: Newcomers | None = None


@dataclass(frozen=True)
class Trained:
    """All trainings of one setting, a seed each."""

    setting: Setting
    fits: tuple[Fit, ...]


@dataclass(frozen=True)
class DocumentsResult:
    """All settings, and what their memories had in common."""

    trained: tuple[Trained, ...]
    documents: int
    segments: int
    segment: int
    entries: int
    key_dim: int
    layers: tuple[int, ...]
    many: tuple[int, ...]
    model: str
    counts: tuple[int, ...] = ()

    def has(self, setting: Setting) -> bool:
        """Whether it was trained: where documents outnumber entries, some cannot be."""
        return any(one.setting == setting for one in self.trained)

    def of(self, setting: Setting) -> tuple[Fit, ...]:
        """Its trainings, a seed each."""
        return next(one.fits for one in self.trained if one.setting == setting)

    def each(self, setting: Setting, measure: Callable[[Fit], T | None]) -> list[T]:
        """One measure of its trainings, a seed each; nothing where it was not taken."""
        return [one for fit in self.of(setting) if (one := measure(fit)) is not None]

    def over_seeds(self, setting: Setting, key: str) -> Floats:
        """A number of `Fit`, one per seed; nothing where there is none."""
        return np.array(self.each(setting, lambda fit: getattr(fit, key)), dtype=np.float64)
