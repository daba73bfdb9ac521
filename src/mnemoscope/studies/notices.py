"""Sentences that a study owes its reader: what was found damaged, and was done again."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

log = logging.getLogger(__name__)

_collected: ContextVar[list[str] | None] = ContextVar("collected", default=None)


@contextmanager
def collected() -> Iterator[list[str]]:
    """Yield the list of all that is said with `notice` meanwhile, for the page."""
    sentences: list[str] = []
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
        sentences.append(sentence)
