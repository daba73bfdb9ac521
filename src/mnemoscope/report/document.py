"""A report as plain data: what it asks, what it shows, and how to run it again.

All text is plain; whoever renders it escapes it. A name becomes a file name through `slug`.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mnemoscope import __version__
from mnemoscope.core.errors import UserError

if TYPE_CHECKING:
    import plotly.graph_objects as go

Cell = str | int | float | None
# With four bytes a letter this stays below the 255 bytes of a file name.
LONGEST_SLUG = 60
# A finding is read in half a minute.
MOST_SENTENCES = 3


@dataclass(frozen=True, eq=False)
class Figure:
    """A plotly figure, and in ``data`` the numbers it shows, one dict a row."""

    name: str
    figure: go.Figure
    caption: str
    data: Sequence[Mapping[str, Cell]]

    def __post_init__(self) -> None:
        slug(self.name)
        if not self.data:
            raise UserError(f"figure {self.name!r} has no data; give the rows that it shows")

    def table(self) -> Table:
        """Return ``data`` as a table; a row that lacks a column has None there."""
        columns = list(dict.fromkeys(key for row in self.data for key in row))
        rows = [[row.get(column) for column in columns] for row in self.data]
        return Table(self.name, columns, rows, self.caption)


@dataclass(frozen=True)
class Table:
    """Numbers and words in columns."""

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str

    def __post_init__(self) -> None:
        slug(self.name)
        for number, row in enumerate(self.rows, start=1):
            if len(row) != len(self.columns):
                raise UserError(
                    f"table {self.name!r} has {len(self.columns)} columns, "
                    f"but row {number} has {len(row)} cells"
                )


class Code(str):
    """Lines that a reader can run: a part of a section that is shown as it is."""


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it; a string is a paragraph."""

    title: str
    parts: Sequence[str | Figure | Table]


@dataclass(frozen=True)
class Finding(Section):
    """What a page leads with: one to three plain sentences, and the one figure that shows them.

    A reader who leaves after it has the answer: no chains of comparisons, no rates, no gates but
    the one that failed. Evidence stands in the sections below.
    """

    def __post_init__(self) -> None:
        *sentences, figure = self.parts
        if not isinstance(figure, Figure) or not 1 <= len(sentences) <= MOST_SENTENCES:
            raise UserError(f"a finding is one to {MOST_SENTENCES} sentences, then a figure")


def finding(*sentences: str, figure: Figure) -> Finding:
    """The section with which a page leads."""
    return Finding("What was found", [*sentences, figure])


@dataclass(frozen=True)
class Reproduce:
    """All that is needed to get the same numbers again."""

    command: str
    config: str
    versions: Mapping[str, str]
    seconds: float
    date: datetime.datetime
    threads: int
    cpu_seconds: float | None = None

    @classmethod
    def here(
        cls,
        command: str,
        config: str,
        seconds: float,
        threads: int,
        cpu_seconds: float | None = None,
    ) -> Reproduce:
        """Fill in date and versions from the running program; ``config`` is YAML."""
        versions = {"mnemoscope": __version__, "Python": platform.python_version()}
        versions |= {name: importlib.metadata.version(name) for name in ("torch", "numpy")}
        versions["system"] = f"{platform.system()} {platform.machine()}"
        now = datetime.datetime.now().astimezone()
        return cls(command, config, versions, seconds, now, threads, cpu_seconds)


@dataclass(frozen=True)
class Report:
    """A page: the question, the sections that answer it, and how to reproduce them."""

    title: str
    question: str
    sections: Sequence[Section]
    reproduce: Reproduce

    def __post_init__(self) -> None:
        owner: dict[str, str] = {}
        parts: list[Figure | Table] = [*self.figures(), *self.tables()]
        for part in parts:
            file = slug(part.name)
            if file in owner:
                raise UserError(
                    f"{owner[file]!r} and {part.name!r} would both be saved as {file!r}; "
                    "rename one of them"
                )
            owner[file] = part.name

    def figures(self) -> Iterator[Figure]:
        """Yield all figures in the order of the page."""
        return (part for one in self.sections for part in one.parts if isinstance(part, Figure))

    def tables(self) -> Iterator[Table]:
        """Yield all tables in the order of the page."""
        return (part for one in self.sections for part in one.parts if isinstance(part, Table))


def slug(name: str) -> str:
    """Turn a name into lower-case words joined by hyphens: a safe file name and page anchor."""
    text = unicodedata.normalize("NFKC", name).casefold()
    result = "-".join(re.findall(r"[^\W_]+", text))[:LONGEST_SLUG].strip("-")
    if not result:
        raise UserError(f"the name {name!r} needs at least one letter or digit")
    return result
