"""Results that come with the package, as the page sees them: listed by name, drawn when asked for.

Nothing is written, and no file is named by a page: a name is one of the list or refused.
"""

from __future__ import annotations

import threading
from functools import cache, lru_cache
from typing import Any

from mnemoscope import shipped
from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import KINDS
from mnemoscope.report.page import render
from mnemoscope.scope import records

Json = dict[str, Any]

# A page has megabytes; a reader goes back and forth between a few.
MOST_PAGES = 4
# Two who ask for a page at the same time wait for one drawing of it.
_lock = threading.Lock()


@cache
def listed() -> list[Json]:
    """All shipped results, in a few words each; they do not change while a page is open."""
    return [about(name) for name in shipped.shipped()]


def about(name: str) -> Json:
    """What a result is of and when it was made, or why that cannot be said."""
    try:
        found = shipped.load(name)
    except UserError as error:
        # Its folder is the package's own, which is nobody's business.
        words = str(error).replace(str(shipped.home()), "results")
        return {"id": name, "of": "", "question": "", "date": "", "problem": records.shown(words)}
    return {
        "id": name,
        "of": f"{found.kind} {found.name}",
        "question": question(found.kind, found.name),
        "date": f"{found.made.date:%Y-%m-%d}",
        "problem": None,
    }


def question(kind: str, name: str) -> str:
    """What a study asks, or a lens shows, written as in a list."""
    known = KINDS.get(kind, {}).get(name)
    line = known.line if known is not None else str(shipped.owner(kind, name).question)
    return line if line[:2].isupper() else f"{line[0].lower()}{line[1:]}"


def find(name: str) -> Json:
    """One shipped result by its name."""
    known = {one["id"]: one for one in listed()}
    if name not in known:
        raise UserError(f"there is no {name[:80]!r} here")
    return known[name]


def page(name: str) -> bytes:
    """The page of a shipped result, as one HTML file."""
    problem = find(name)["problem"]
    if problem is not None:
        raise UserError(problem)
    with _lock:
        return _rendered(name)


@lru_cache(maxsize=MOST_PAGES)
def _rendered(name: str) -> bytes:
    return render(shipped.page(shipped.load(name))).encode()
