"""One exception for everything a user can put right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake that the message explains and the reader can correct.

    The command line prints it without a traceback; a library user sees it as any exception.
    """


class InterruptedRunError(UserError):
    """Somebody stopped the work; all that was done is kept, and the message says how to go on."""


def suggestion(word: str, options: Iterable[str]) -> str:
    """Say which of ``options`` was probably meant, or list them all when none is near."""
    known = sorted(options)
    near = difflib.get_close_matches(word, known, n=2, cutoff=0.6)
    if near:
        return f"did you mean {' or '.join(repr(name) for name in near)}?"
    return f"known: {', '.join(known)}" if known else "there are none"
