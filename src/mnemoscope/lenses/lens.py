"""What a lens is: options, what it reads, a result that shows itself, and a page of that. No torch.

A lens is a class in `lenses/NAME/lens.py` with `observe` and `result`, and one line in
`mnemoscope.core.registry`. Its options and its result are in files that import no torch: help comes
at once, and a result that was kept can be drawn anywhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from mnemoscope.core.config import Config
from mnemoscope.core.errors import UserError
from mnemoscope.core.shown import shows_itself
from mnemoscope.plots.figure import Plot, Series, lines
from mnemoscope.report import page
from mnemoscope.report.document import Figure, Finding, Section, Table

# Of a number that counts something in one text, and of tokens in all.
MOST, MOST_TOKENS = 1 << 20, 1 << 40
# One dict a row.
Records = list[dict[str, Any]]
Part = str | Figure | Table


def records(axes: Mapping[str, Sequence[Any]], columns: Mapping[str, Any]) -> Records:
    """One row for each combination of what ``axes`` hold, the last one fastest.

    A column has the shape of the axes or one that broadcasts to it: a number is in every row.
    """
    shape = tuple(map(len, axes.values()))
    arrays = (np.broadcast_to(np.asarray(values), shape) for values in columns.values())
    rows = zip(*(one.ravel().tolist() for one in arrays), strict=True)
    names = (*axes, *columns)
    return [
        dict(zip(names, (*at, *row), strict=True))
        for at, row in zip(product(*axes.values()), rows, strict=True)
    ]


def by_site(
    series: Mapping[str, Sequence[Any]], sites: Sequence[str], *titles: str, **how: Any
) -> Plot:
    """Curves over sites, each as value, or as value, low and high, by name."""
    ticks = np.arange(len(sites))
    figure = lines(
        [Series(name, ticks, *values) for name, values in series.items()], *titles, **how
    )
    figure.update_xaxes(tickvals=list(ticks), ticktext=list(sites))
    return figure


class Result(ABC):
    """What a lens found: a frozen dataclass of arrays with names that shows itself."""

    def __init_subclass__(cls) -> None:
        # Before `dataclass` writes one that prints every number.
        shows_itself(cls)

    @abstractmethod
    def figure(self) -> Plot:
        """The main figure."""

    @abstractmethod
    def table(self) -> Records:
        """All numbers of the main figure, one dict a row."""

    def sections(self) -> list[Section]:
        """The page, without its title: nothing but the result is needed for it."""
        lead = self.finding()
        if lead is None:
            return [Section("What was seen", self.parts())]
        return [lead, Section("Evidence", self.parts())]

    def finding(self) -> Finding | None:
        """What the page leads with."""
        return None

    def parts(self) -> list[Part]:
        """The evidence below."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        name = type(self).__name__
        return page.fragment(Figure(name, self.figure(), "", self.table()))


# `Lens` has an attribute of that name.
_Result = Result


class Lens(ABC):
    """The base of every lens.

    question   what a page asks; ``{models}`` is the names of the models
    Result     what ``result`` returns; with it a page can be drawn again from its result.json
    models     the least and the most models it takes, None for any number
    reads      texts, pairs (a source and what is said, separated by a tab), or nothing
    """

    title: ClassVar[str]
    question: ClassVar[str]
    Options: ClassVar[type[Config]]
    Result: ClassVar[Any] = None
    models: ClassVar[tuple[int, int | None]] = (1, 1)
    reads: ClassVar[Literal["texts", "pairs", "nothing"]] = "texts"

    @classmethod
    @abstractmethod
    def measure(cls, models: Sequence[Any], texts: Sequence[str], options: Any) -> _Result:
        """Open the models, let them read, observe, and return the result."""

    @abstractmethod
    def result(self) -> _Result:
        """What was seen so far."""

    @staticmethod
    def page(result: _Result) -> list[Section]:
        """The sections of a result; pure."""
        return result.sections()

    @classmethod
    def asked(cls, names: Sequence[str]) -> str:
        """The question about models of these names."""
        return cls.question.format(models=" and ".join(names))

    @classmethod
    def check(cls, models: Sequence[Any], texts: Sequence[Any] | None) -> None:
        """Raise `UserError` for too few or too many models or texts, before any is opened."""
        name, (least, most) = cls.title.lower(), cls.models
        if len(models) < least or (most is not None and len(models) > most):
            count = {(1, 1): "one model", (1, 2): "one model, or two"}.get((least, most or 0))
            raise UserError(f"{name} looks at {count or f'at least {least} models'}")
        if cls.reads == "nothing" and texts is not None:
            raise UserError(f"{name} reads no text: leave --text out")
        if cls.reads != "nothing" and texts is None:
            what = "a text" if cls.reads == "texts" else "sentences"
            raise UserError(f"give {what} to read: --text FILE")
        if cls.reads == "pairs" and not all(isinstance(text, str) for text in texts or ()):
            raise UserError(f"{name} reads sentences as text, not as token ids")
        filled = (text.strip() if isinstance(text, str) else len(text) for text in texts or ())
        if texts is not None and not any(filled):
            raise UserError("the text is empty: there is nothing to read")


class TextOptions(Config):
    """How much of a text is read."""

    length: int = Field(128, ge=2, le=MOST, description="tokens read at once; longer texts are cut")
    tokens: int = Field(
        50_000, ge=1, le=MOST_TOKENS, description="about how many tokens to read at most"
    )

    def chosen(self) -> dict[str, Any]:
        """The options of the lens itself: all but where and how much is read."""
        return {name: value for name, value in self if name not in SiteOptions.model_fields}


class SiteOptions(TextOptions):
    """Where activations are captured while a text is read."""

    sites: tuple[str, ...] = Field(
        ("embeddings", "layer.*.out"), min_length=1, description="where to capture; globs work"
    )


class PairOptions(Config):
    """How many sentences a translator reads."""

    sentences: int = Field(100, ge=1, le=MOST, description="how many sentences to read at most")
