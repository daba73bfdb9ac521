"""One exception for everything a user can put right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

# Of a longer value a message shows the beginning.
_LONGEST_SHOWN = 80


class UserError(Exception):
    """A mistake that the message explains and the reader can correct.

    The command line prints it without a traceback; a library user sees it as any exception.
    """


class InterruptedRunError(UserError):
    """Somebody stopped the work; what was done is kept, and the message says how to continue."""


def suggestion(word: str, options: Iterable[str]) -> str:
    """Say which of ``options`` was probably meant, or list them all when none is near."""
    known = sorted(options)
    near = difflib.get_close_matches(word[:100], known, n=2, cutoff=0.6)
    if near:
        return f"did you mean {' or '.join(repr(name) for name in near)}?"
    return f"known: {', '.join(known)}" if known else "there are none"


def first_line(error: BaseException) -> str:
    """What an exception says, or else what it is."""
    return (str(error) or type(error).__name__).splitlines()[0]


def shown(value: Any, *, quoted: bool = True) -> str:
    """A value as a message shows it: ``'aaaa…' (5000 characters)`` when it is long."""
    if isinstance(value, int) and value.bit_length() > 1000:  # Python refuses to spell it
        return f"a number of {value.bit_length()} bits"
    text = str(value) if isinstance(value, str) and not quoted else repr(value)
    if len(text) <= _LONGEST_SHOWN:
        return text
    size = len(value) if isinstance(value, str) else len(text)
    return f"{text[: _LONGEST_SHOWN // 2]}… ({size} characters)"
