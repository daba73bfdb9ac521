"""Which books are trained on, which rates are tried on, and which are reported: never the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mnemoscope.core.errors import UserError
from mnemoscope.core.seeds import derive
from mnemoscope.data.documents import Document, choose

# Documents shorter than this are never drawn: there is nothing to carry a memory through.
SHORTEST = 4096


@dataclass(frozen=True)
class Parts:
    """Books that are reported, and books that learning rates are tried on; all others train."""

    reported: list[Document]
    tuned: list[Document]

    @property
    def of_text(self) -> dict[str, list[str]]:
        """How the task `text` is told: rates are tried on what it keeps for validation."""
        reported = [book.name for book in self.reported]
        if not self.tuned:
            return {"valid": reported}
        return {"valid": [book.name for book in self.tuned], "tested": reported}


def part_books(
    documents: list[Document],
    reported: Sequence[str] | None,
    share: float,
    tuned: Sequence[str] | None,
    tries: bool,
) -> Parts:
    """Part books by names, or draw what is not named: ``share`` of the text, and a short book."""
    books = choose(documents, reported) if reported else draw(documents, share)
    if not tries:
        return Parts(books, [])
    rest = [one for one in documents if one not in books]
    if tuned:
        return Parts(books, choose(rest, tuned))
    long = [one for one in rest if len(one.text) >= SHORTEST]
    if not long or len(rest) < 2:
        raise UserError(
            "learning rates are tried on a book that is neither trained on nor reported, and none "
            "is left: give more books, or leave learning_rates out"
        )
    return Parts(books, [min(long, key=lambda one: (len(one.text), one.name))])


def draw(documents: Sequence[Document], share: float) -> list[Document]:
    """Draw books to hold out, always the same: at least two, and ``share`` of the text."""
    long = [one for one in documents if len(one.text) >= SHORTEST]
    if len(long) < 2 or len(documents) < 3:
        raise UserError(
            f"whole books are held out, drawn from those of {SHORTEST} characters or more: of "
            f"{len(documents)} documents {len(long)} are; give at least three, two of them long, "
            "or name those to hold out with valid"
        )
    wanted = share * sum(len(one.text) for one in documents)
    rng = np.random.default_rng(derive(0, "held out books"))
    drawn: list[Document] = []
    for place in rng.permutation(len(long)).tolist():
        enough = len(drawn) >= 2 and sum(len(one.text) for one in drawn) >= wanted
        if enough or len(drawn) == len(documents) - 1:
            break
        drawn.append(long[place])
    return sorted(drawn, key=lambda one: one.name)
