"""What a session says: a document that was read, and replies, as data. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MeasuredLoss:
    """Nats per token of a document's second half, with what was read before it and without.

    tokens   that were predicted
    """

    tokens: int
    own: float
    none: float

    def __str__(self) -> str:
        saved = self.none - self.own
        said = f"saves {saved:.3f}" if saved >= 0 else f"costs {-saved:.3f}"
        return (
            f"loss of {self.tokens} tokens of this document: {self.own:.3f} nats per token with "
            f"what was read before its window, {self.none:.3f} without ({said})"
        )


@dataclass(frozen=True)
class DocumentRead:
    """A document that a model has read.

    tokens    of the document
    segments  in which it was read
    segment   tokens of one, at most
    nbytes    of all that is carried from it, measured
    held      tokens of it that some layer still holds by themselves, None where nobody can tell
    mixed     tokens of it that went into signals or vectors, which hold no token by itself
    pace      CPU seconds per 1000 tokens in the first tenth of the segments and in the last; None
              where there are too few
    """

    name: str
    tokens: int
    segments: int
    segment: int
    nbytes: int
    held: int | None
    mixed: int
    measured: MeasuredLoss | None
    pace: tuple[float, float] | None = None

    @property
    def fits(self) -> bool:
        """Whether it is no longer than a segment: then nothing has to be remembered."""
        return self.tokens <= self.segment


@dataclass(frozen=True)
class WordAttention:
    """A word of a reply, and the attention behind it.

    document  share of all attention that fell on the document
    part      the part of the document that got most of it, empty where none got any
    share     share of all attention that this part got
    """

    word: str
    document: float
    part: str
    share: float


@dataclass(frozen=True)
class Reply:
    """What a model said.

    blank   whether it was to answer without the document
    nbytes  of all that is carried after it
    words   the attention behind every word, mean over layers and heads; None where a memory does
            not attend to what it holds, empty where there is no document
    parts   parts of the document by the share of attention they got, most first
    """

    question: str
    text: str
    tokens: int
    blank: bool
    nbytes: int
    words: tuple[WordAttention, ...] | None
    parts: tuple[tuple[str, float], ...]
