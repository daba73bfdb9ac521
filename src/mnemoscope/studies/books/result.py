"""The result of the study `books`, as data.

Shapes: R passages, K stretches of the reading, see `passages`.
"""

from __future__ import annotations

from dataclasses import dataclass

from mnemoscope.studies.study import Diverged

Grid = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Examined:
    """What reading the passages that were held out cost a trained model.

    bits         (R, K) with the state as it was carried, of all segments
    extra        by name of a control, (R, K) bits that it cost more, of every few segments
    state_bytes  what one passage carries in the end
    seconds      that the training took
    """

    bits: Grid
    extra: dict[str, Grid]
    state_bytes: int
    seconds: float


@dataclass(frozen=True)
class ReadPassage:
    """Which book a passage is of; (K,) bytes read in each stretch, and read with controls too."""

    book: str
    bytes: tuple[float, ...]
    probed: tuple[float, ...]


@dataclass(frozen=True)
class BooksModel:
    """A contender: None is said of an option that its memory does not have.

    older  vectors that a layer keeps of what is older than the last ``mem_len`` tokens
    """

    label: str
    parameters: int
    width: int
    mem_len: int | None
    older: int
    mlp_ratio: float | None


@dataclass(frozen=True)
class BooksTrial:
    """One training, and what became of it."""

    model: str
    seed: int
    run: str
    outcome: Examined | Diverged


@dataclass(frozen=True)
class BooksResult:
    """All models on all passages.

    warm   bytes read before controls count
    probe  controls read one segment in so many
    bigram bits per byte of a model that knows how often each byte follows each, no more; None in
           results of versions that did not count
    """

    segment: int
    warm: int
    probe: int
    trained_bytes: int
    training_text: int
    passages: tuple[ReadPassage, ...]
    models: dict[str, BooksModel]
    trials: tuple[BooksTrial, ...]
    bigram: float | None = None
