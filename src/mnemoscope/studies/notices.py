"""Sentences that a study owes its reader: what was done again, and what is missing."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

log = logging.getLogger(__name__)


@dataclass
class Collected:
    """All that was said: ``notices`` of what was done again, ``missing`` of what could not be."""

    notices: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


_collected: ContextVar[Collected | None] = ContextVar("collected", default=None)


@contextmanager
def collected() -> Iterator[Collected]:
    """Yield what is said with `notice` and `missing` meanwhile, for the page."""
    sentences = Collected()
    before = _collected.set(sentences)
    try:
        yield sentences
    finally:
        _collected.reset(before)


def notice(sentence: str) -> None:
    """Warn at once, and leave the sentence to whoever writes the page."""
    log.warning("%s", sentence)
    sentences = _collected.get()
    if sentences is not None:
        sentences.notices.append(sentence)


def missing(sentence: str, lines: Sequence[str]) -> None:
    """Warn of what a result has to do without, and leave it to the page with its last lines."""
    said = " ⏎ ".join(line.strip() for line in lines)
    log.warning("%s Its last lines: %s", sentence, said)
    sentences = _collected.get()
    if sentences is not None:
        sentences.missing.append(f"{sentence} Its last lines: {said}")
