"""What a study would train, as it says itself before it begins; nothing is trained.

Studies that read what does not come with the package are given made-up books or sentence pairs,
large enough for what they ask of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from mnemoscope.core.errors import UserError
from mnemoscope.core.registry import find
from mnemoscope.studies.engines.engine import Engine, Outcome, Task, using
from mnemoscope.training.config import RunConfig

# Enough for the last of them to have text behind what `books` reads to warm up.
BOOKS, BOOK_WORDS = 20, 8000
# Enough words for 16 000 tokens of BPE; a sentence has as many as one of a corpus on average.
PAIRS, SENTENCE_WORDS, WORDS = 4000, 12, 30_000
# What else can be less, because no training depends on it: lengths at which a state is weighed.
LESS: dict[str, dict[str, Any]] = {"retention": {"lengths": (16, 64)}}


class PlannedError(Exception):
    """All trainings of a study are known; none is begun."""


class Plan(Engine):
    """An engine that computes nothing: it notes what it would be given."""

    name = "plan"

    def announce(self, label: str, trials: Sequence[RunConfig], jobs: int) -> None:
        """Note them all, those of later rounds included, and go no further."""
        raise PlannedError(list(trials))

    def each(self, tasks: Sequence[Task], jobs: int) -> Iterator[tuple[str, Outcome]]:
        """Never reached by a study that says beforehand what it trains."""
        raise UserError("its trainings are not announced before they begin")


@cache
def planned(study: str, home: Path) -> list[RunConfig]:
    """Every training of the preset `paper`; made-up data are written to ``home`` and stay there."""
    options = LESS.get(study, {}) | _data(study, home)
    with using(Plan()):
        try:
            find("study", study).preset("paper", **options).run(home / study, 2)
        except PlannedError as plan:
            found: list[RunConfig] = plan.args[0]
            return found
    raise UserError("it trains nothing")


def _data(study: str, home: Path) -> dict[str, Any]:
    if study == "books":
        return {"source": str(made_up_books(home / "made-up-books"))}
    if "corpus" in find("study", study).model_fields:
        return {"corpus": str(made_up_pairs(home / "made-up-pairs.tsv"))}
    return {}


def made_up_books(folder: Path) -> Path:
    """Books of words that are drawn at random."""
    draw = random.Random(0)
    words = _words(draw)
    folder.mkdir(exist_ok=True)
    for number in range(BOOKS):
        (folder / f"book-{number:02}.txt").write_text(" ".join(_drawn(words, BOOK_WORDS, draw)))
    return folder


def made_up_pairs(path: Path) -> Path:
    """Sentence pairs of such words, as a table."""
    draw = random.Random(0)
    words = _words(draw)
    sides = [[" ".join(_drawn(words, SENTENCE_WORDS, draw)) for _ in range(PAIRS)] for _ in "ab"]
    path.write_text("".join(f"{one}\t{other}\n" for one, other in zip(*sides, strict=True)))
    return path


def _words(draw: random.Random) -> list[str]:
    letters = "etaoinshrdlucmfwypvbgk"
    return ["".join(draw.choices(letters, k=draw.randint(3, 8))) for _ in range(WORDS)]


def _drawn(words: Sequence[str], count: int, draw: random.Random) -> list[str]:
    """Some words often, most rarely: the n-th with a chance of about 1/n."""
    return [words[int(len(words) ** draw.random()) - 1] for _ in range(count)]
