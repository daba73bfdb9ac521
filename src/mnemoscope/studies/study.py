"""What every study is: options with presets, a result that is data, and a page drawn from it alone.

`run` computes a result, which goes to JSON and back; `page` is pure. With ``result.json`` alone,
years later and without torch, the page can be drawn again.

No ``study.py`` imports torch before it runs, so that a mistyped option shows at once.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self

from pydantic import Field

from mnemoscope.core.config import MOST_LAYERS, Config
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.core.registry import KINDS, model_kind
from mnemoscope.core.shown import shows_itself
from mnemoscope.report.document import Section

# Options that many studies have; each gives its own default.
Steps = Annotated[int, Field(ge=1, description="optimiser steps per model")]
LearningRate = Annotated[float, Field(gt=0, description="highest learning rate")]
Device = Annotated[str, Field(description="auto, cpu, cuda, mps")]
Precision = Annotated[
    Literal["float32", "bfloat16", "float16"],
    Field(description="what the model that is given computes and stores in"),
]
TrainPrecision = Annotated[
    Literal["auto", "float32", "bfloat16"],
    Field(
        description="what trainings compute products in, weights being float32; "
        "auto = bfloat16 where the accelerator has it"
    ),
]

# Takes a result that is not whole yet, to show it.
Share = Callable[[Any], None]


class Page(Protocol):
    """What a page is drawn by."""

    def __call__(self, result: Any, /) -> Sequence[Section]:
        """Say and draw what was seen, from the result alone: no model, no file, no torch."""


@dataclass(frozen=True)
class Diverged:
    """What is left of a trial whose loss left the finite numbers: why."""

    diverged: str


@dataclass(frozen=True)
class Sized:
    """A model's size, and the learning rate that was chosen for it."""

    parameters: int
    width: int
    layers: int
    lr: float


def label(memory: str) -> str:
    """The name people know a memory's model, or a translator, by."""
    entry = KINDS[model_kind(memory)].get(memory)
    return (entry.label if entry else "") or memory


class Study(Config):
    """A question, as data: which models, which data, how long.

    The docstring of a study begins its page: the first line is the title, the rest the question.
    `run` leaves everything in its folder, so that it can be stopped and run again. What it
    returns is of the class ``Result``, a frozen dataclass; all that needs a model is in there.
    """

    title: ClassVar[str]
    question: ClassVar[str]
    # What each preset changes. "quick", the default, changes nothing: the options do on a laptop.
    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    Result: ClassVar[type]
    page: ClassVar[Page]
    # Whether `page` can draw what there is before all of it is there.
    live: ClassVar[bool] = False

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        title, _, question = inspect.cleandoc(cls.__doc__ or "").partition("\n\n")
        # One that has a single line, or says both by themselves, is not the head of a page.
        if question and "title" not in vars(cls):
            cls.title, cls.question = title, " ".join(question.split())
        cls.presets = {"quick": {}, **cls.presets}
        if "Result" in vars(cls):
            shows_itself(cls.Result)

    @classmethod
    def preset(cls, name: str = "quick", **overrides: Any) -> Self:
        """Return the named preset with some options changed."""
        if name not in cls.presets:
            raise UserError(f"unknown preset {name!r}; {suggestion(name, cls.presets)}")
        return cls.make(**{**cls.presets[name], **overrides})

    def some(self, *names: str) -> dict[str, Any]:
        """Some of the options by name, as results and models are made with."""
        return {name: getattr(self, name) for name in names}

    @abstractmethod
    def run(self, folder: Path, jobs: int) -> Any:
        """Compute the result."""

    def run_live(self, folder: Path, jobs: int, share: Share) -> Any:
        """The same; a live study hands out its result so far whenever there is more of it."""
        return self.run(folder, jobs)


class ShapedStudy(Study):
    """A study whose models all have the same shape."""

    width: int = Field(64, ge=1, description="width of every model")
    layers: int = Field(2, ge=1, le=MOST_LAYERS, description="layers of every model")
    heads: int = Field(4, ge=1, description="attention heads")
