"""The result of the study `books`, as data.

Shapes: R passages, K stretches of the reading, see `passages`.
"""

from __future__ import annotations

from dataclasses import dataclass

from mnemoscope.studies.rates import TriedRate
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
    """Which book a passage is of, and how much of it was read.

    bytes   (K,) bytes of text in each stretch
    probed  (K,) those that were read with controls too
    tokens  (K,) tokens in each stretch; empty where they are bytes
    words   in all that was read, as perplexities per word count them; None in older results
    """

    book: str
    bytes: tuple[float, ...]
    probed: tuple[float, ...]
    tokens: tuple[float, ...] = ()
    words: int | None = None


@dataclass(frozen=True)
class BooksModel:
    """A contender: None is said of an option that its memory does not have.

    older  vectors that a layer keeps of what is older than the last ``mem_len`` tokens
    lr     the rate that it was trained with; None in older results
    """

    label: str
    parameters: int
    width: int
    mem_len: int | None
    older: int
    mlp_ratio: float | None
    lr: float | None = None


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

    warm       tokens read before controls count
    probe      controls read one segment in so many
    bigram     bits per byte of a model that knows how often each token follows each, no more; None
               in results of versions that did not count
    unit       what a token is
    vocab      how many different ones there are
    context    tokens back that the ceiling attends to; None where there is none
    recent     tokens that count as cache where a model has no other: half of the vectors of a state
    line_ends  whether the end of a line counts as a word
    tried      learning rates that were tried, on the books ``tuned``, which nothing is reported of,
               in trainings of ``tried_steps`` steps
    stopped    whether memories were not trained because there was too little to gain
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
    unit: str = "bytes"
    vocab: int = 256
    context: int | None = None
    recent: int = 0
    line_ends: bool = False
    tried: tuple[TriedRate, ...] = ()
    tried_steps: int = 0
    tuned: tuple[str, ...] = ()
    stopped: bool = False
